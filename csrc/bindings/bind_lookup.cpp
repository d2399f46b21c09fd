// The factorised lookup as a Python object that holds core data and no more.
#include "bindings/pybind11.hpp"
// Own headers follow pybind11, which must come first.
#include "core/lookup.hpp"

namespace specgrid {
namespace {

std::vector<Range> ranges_from(const Int64Array& array) {
  std::vector<Range> ranges;
  const auto values = span_of(array);
  for (std::size_t i = 0; i + 1 < values.size(); i += 2) {
    ranges.push_back({values[i], values[i + 1]});
  }
  return ranges;
}

Lookup lookup_from(const Int64Array& batches, const Int64Array& contexts,
                   const Int64Array& k, std::int64_t max_num_seqs,
                   std::int32_t num_speculative_tokens) {
  Grid grid{ranges_from(batches), ranges_from(contexts), {}};
  const auto values = span_of(k);
  if (grid.batches.empty() || grid.contexts.empty() ||
      values.size() != grid.batches.size() * grid.contexts.size()) {
    throw py::value_error("grid arrays do not fit together");
  }
  grid.k.assign(values.begin(), values.end());
  return make_lookup(grid, max_num_seqs, num_speculative_tokens);
}

std::int32_t at(const Lookup& lookup, std::int64_t batch,
                std::int64_t context) {
  if (batch < 0 || batch > lookup.max_num_seqs) {
    throw py::index_error("batch out of range");
  }
  if (context < 0) throw py::index_error("context out of range");
  return lookup.at(batch, context);
}

// Fills a freshly made NumPy array, so that memory comes from NumPy's own
// allocator (large pages included) and is written exactly once.
template <typename T>
py::array dense_as(const Lookup& lookup) {
  const auto rows = static_cast<py::ssize_t>(lookup.max_num_seqs + 1);
  const auto columns = static_cast<py::ssize_t>(lookup.num_columns());
  py::array_t<T> out({rows, columns});
  const std::span<T> values(out.mutable_data(),
                            static_cast<std::size_t>(out.size()));
  {
    const py::gil_scoped_release release;
    fill_dense(lookup, values);
  }
  return out;
}

py::array dense(const Lookup& lookup, int item_bytes) {
  switch (item_bytes) {
    case 1:
      return dense_as<std::uint8_t>(lookup);
    case 2:
      return dense_as<std::uint16_t>(lookup);
    case 4:
      return dense_as<std::uint32_t>(lookup);
    default:
      throw py::value_error("item_bytes must be 1, 2 or 4");
  }
}

// Writes `count` references to one object. The count is raised once where the
// interpreter allows it; immortal small ints need none (3.12 and later).
void fill_references(PyObject** items, std::int64_t count, PyObject* value) {
  std::fill_n(items, count, value);
#if PY_VERSION_HEX < 0x030C0000
  Py_SET_REFCNT(value, Py_REFCNT(value) + static_cast<Py_ssize_t>(count));
#else
  for (std::int64_t i = 0; i < count; ++i) Py_INCREF(value);
#endif
}

// list[int] of one column: one int object per run, shared by its batches.
py::list column_list(const Lookup& lookup) {
  if (lookup.num_columns() != 1) throw py::value_error("needs one column");
  const auto size = static_cast<Py_ssize_t>(lookup.max_num_seqs + 1);
  py::list list = py::reinterpret_steal<py::list>(PyList_New(size));
  if (!list) throw py::error_already_set();
  PyObject** items = reinterpret_cast<PyListObject*>(list.ptr())->ob_item;
  const py::int_ zero(0);
  fill_references(items, 1, zero.ptr());
  for (std::size_t run = 0; run < lookup.starts.size(); ++run) {
    const std::int64_t first = lookup.starts[run];
    const py::int_ k(lookup.k[run]);
    fill_references(items + first, lookup.run_end(run) - first, k.ptr());
  }
  return list;
}

py::tuple tiers_tuple(const Lookup& lookup) {
  const std::vector<Tier> found = tiers(lookup);
  py::tuple out(found.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    out[i] = py::make_tuple(found[i].query_len, found[i].k, found[i].min_batch,
                            found[i].max_batch);
  }
  return out;
}

py::tuple canonical_arrays(const Lookup& lookup) {
  const Lookup joined = canonical(lookup);
  return py::make_tuple(to_array(joined.starts), to_array(joined.context_his),
                        to_array(joined.k));
}

py::array_t<std::int32_t> gather_array(const Lookup& lookup,
                                       const Int64Array& batches,
                                       const Int64Array& contexts) {
  if (contexts.size() != 0 && contexts.size() != batches.size()) {
    throw py::value_error("batches and contexts differ in length");
  }
  py::array_t<std::int32_t> out(batches.size());
  const std::span<std::int32_t> values(out.mutable_data(),
                                       static_cast<std::size_t>(out.size()));
  const auto b = span_of(batches);
  const auto c = span_of(contexts);
  std::int64_t bad;
  {
    const py::gil_scoped_release release;
    bad = gather(lookup, b, c, values);
  }
  if (bad >= 0) throw py::index_error(std::to_string(bad));
  return out;
}

}  // namespace

void bind_lookup(py::module_& m) {
  py::class_<Lookup>(m, "Lookup")
      .def(py::init(&lookup_from), py::arg("batches").noconvert(),
           py::arg("contexts").noconvert(), py::arg("k").noconvert(),
           py::arg("max_num_seqs"), py::arg("num_speculative_tokens"))
      .def_readonly("max_num_seqs", &Lookup::max_num_seqs)
      .def_readonly("num_speculative_tokens", &Lookup::num_speculative_tokens)
      .def_property_readonly("num_columns", &Lookup::num_columns)
      .def("at", &at, py::arg("batch"), py::arg("context"))
      .def(
          "column_of",
          [](const Lookup& lookup, std::int64_t context) {
            if (context < 0) throw py::index_error("context out of range");
            return lookup.column_of(context);
          },
          py::arg("context"))
      .def("dense", &dense, py::arg("item_bytes"))
      .def("column_list", &column_list)
      .def("tiers", &tiers_tuple)
      .def("canonical", &canonical_arrays)
      .def("gather", &gather_array, py::arg("batches").noconvert(),
           py::arg("contexts").noconvert());
}

}  // namespace specgrid
