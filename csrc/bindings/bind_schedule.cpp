// Rows in, a grid or a fault out.
#include "bindings/pybind11.hpp"
// Own headers follow pybind11, which must come first.
#include "core/schedule.hpp"

namespace specgrid {
namespace {

py::array_t<std::int64_t> ranges_array(const std::vector<Range>& ranges) {
  py::array_t<std::int64_t> out(
      {static_cast<py::ssize_t>(ranges.size()), py::ssize_t{2}});
  std::int64_t* next = out.mutable_data();
  for (const Range& range : ranges) {
    *next++ = range.lo;
    *next++ = range.hi;
  }
  return out;
}

py::tuple fault_tuple(const Fault& fault) {
  return py::make_tuple(static_cast<std::int32_t>(fault.rule), fault.row,
                        fault.other, fault.batch_lo, fault.batch_hi,
                        fault.context_lo, fault.context_hi);
}

// Reads one exact int; false for anything else, or beyond int64.
bool read_int(PyObject* object, std::int64_t& out) {
  if (!PyLong_CheckExact(object)) return false;
  int overflow = 0;
  out = PyLong_AsLongLongAndOverflow(object, &overflow);
  return overflow == 0;
}

// The items of an exact list or tuple, which stay while this lives. Without the
// GIL another thread may change a list meanwhile, so its items are copied then.
class Items {
 public:
  explicit Items(PyObject* sequence) : sequence_(sequence) {
#ifdef Py_GIL_DISABLED
    if (PyList_CheckExact(sequence)) {
      copy_ = py::reinterpret_steal<py::object>(PyList_AsTuple(sequence));
      if (!copy_) throw py::error_already_set();
      sequence_ = copy_.ptr();
    }
#endif
  }
  [[nodiscard]] static bool are_in(PyObject* object) {
    return PyList_CheckExact(object) || PyTuple_CheckExact(object);
  }
  [[nodiscard]] Py_ssize_t size() const {
    return PySequence_Fast_GET_SIZE(sequence_);
  }
  [[nodiscard]] PyObject* operator[](Py_ssize_t i) const {
    return PySequence_Fast_GET_ITEM(sequence_, i);
  }

 private:
#ifdef Py_GIL_DISABLED
  py::object copy_;
#endif
  PyObject* sequence_;
};

// A list of 3- or 5-item lists or tuples of exact ints becomes an (n, 5)
// array and a flag whether every row had 3 items. None for anything unusual,
// which Python then looks at, row by row, to say what is wrong.
py::object rows_from_list(const py::object& rows) {
  if (!Items::are_in(rows.ptr())) return py::none();
  const Items list(rows.ptr());
  const Py_ssize_t n = list.size();
  if (n == 0) return py::none();
  std::vector<std::int64_t> values;
  values.reserve(static_cast<std::size_t>(n) * 5);
  Py_ssize_t arity = 0;
  for (Py_ssize_t i = 0; i < n; ++i) {
    if (!Items::are_in(list[i])) return py::none();
    const Items row(list[i]);
    const Py_ssize_t items = row.size();
    if (items != 3 && items != 5) return py::none();
    if (arity != 0 && items != arity) return py::none();
    arity = items;
    std::int64_t v[5];
    for (Py_ssize_t j = 0; j < items; ++j) {
      if (!read_int(row[j], v[j])) return py::none();
    }
    if (items == 3) {
      values.insert(values.end(), {v[0], v[1], 1, kContextInfinity, v[2]});
    } else {
      values.insert(values.end(), v, v + 5);
    }
  }
  return py::make_tuple(to_array(values), arity == 3);
}

}  // namespace

void bind_schedule(py::module_& m) {
  m.def(
      "check_rows",
      [](const Int64Array& rows, std::int32_t form) {
        return fault_tuple(check_rows(span_of(rows), Form{form}));
      },
      py::arg("rows").noconvert(), py::arg("form"),
      "The first fault a single row shows, as a fault tuple.");
  m.def(
      "build_grid",
      [](const Int64Array& rows, std::int32_t form) -> py::tuple {
        const auto values = span_of(rows);
        const auto result = [&] {
          const py::gil_scoped_release release;
          return build_grid(values, Form{form});
        }();
        if (const auto* fault = std::get_if<Fault>(&result)) {
          return py::make_tuple(fault_tuple(*fault), py::none(), py::none(),
                                py::none());
        }
        const Grid& grid = std::get<Grid>(result);
        return py::make_tuple(py::none(), ranges_array(grid.batches),
                              ranges_array(grid.contexts), to_array(grid.k));
      },
      py::arg("rows").noconvert(), py::arg("form"),
      "Rows (n x 5, int64) to (fault, batch ranges, context ranges, k).");
  m.def("rows_from_list", &rows_from_list, py::arg("rows"),
        "A plain list of plain int rows to an array; None if it is not one.");
}

}  // namespace specgrid
