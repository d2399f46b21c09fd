// Captured graphs and dispatch. One function here is written against the C
// API: dispatch runs once per step, and a plain vectorcall is what keeps it as
// cheap as a dictionary lookup.
#include "bindings/pybind11.hpp"
// Own headers follow pybind11, which must come first.
#include <array>
#include <atomic>
#include <limits>
#include <memory>
#include <utility>

#include "core/dispatch.hpp"

namespace specgrid {
namespace {

// The name both back ends share.
using GraphTable = Dispatcher;

void require_counts(std::span<const std::int64_t> values, std::int64_t least,
                    bool ascending, const char* what) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] < least || values[i] > 2147483647 ||
        (ascending && i > 0 && values[i] <= values[i - 1])) {
      throw py::value_error(what);
    }
  }
}

std::vector<DiagonalRun> runs_from(const Int64Array& flat) {
  const auto values = span_of(flat);
  if (values.size() % 3 != 0) {
    throw py::value_error("diagonal must hold three numbers a run");
  }
  require_counts(values, 1, false, "diagonal out of range");
  std::vector<DiagonalRun> runs;
  for (std::size_t i = 0; i < values.size(); i += 3) {
    runs.push_back({values[i], values[i + 1], values[i + 2]});
  }
  return runs;
}

// `limits`: max_num_seqs, max_size, decode_query_len, mixed_max_tokens,
// num_ubatches, ubatch_min_tokens.
std::shared_ptr<GraphTable> make_table(
    const Int64Array& sizes, const Int64Array& query_lens,
    const Int64Array& lora_cases, const Int64Array& diagonal,
    const Int64Array& limits, std::int32_t decode_mode, std::int32_t mixed_mode,
    bool varlen_decode, std::int32_t policy, bool clamp_loras) {
  const auto limit = span_of(limits);
  if (limit.size() != 6) throw py::value_error("limits must be six numbers");
  require_counts(limit.first(3), 1, false, "limits out of range");
  require_counts(limit.subspan(3), 0, false, "limits out of range");
  if (limit[4] < 1 || limit[4] > 32767) {
    throw py::value_error("num_ubatches out of range");
  }
  require_counts(span_of(sizes), 1, true, "sizes must be ascending counts");
  require_counts(span_of(query_lens), 1, true,
                 "query_lens must be ascending counts");
  require_counts(span_of(lora_cases), 0, false, "lora_cases out of range");
  for (const std::int32_t number : {decode_mode, mixed_mode, policy}) {
    if (number < 0 || number > 2) {
      throw py::value_error("mode or policy out of range");
    }
  }
  const std::vector<DiagonalRun> runs = runs_from(diagonal);
  const GraphConfig config{.sizes = span_of(sizes),
                           .query_lens = span_of(query_lens),
                           .lora_cases = span_of(lora_cases),
                           .max_num_seqs = limit[0],
                           .max_size = limit[1],
                           .decode_query_len = limit[2],
                           .decode_mode = static_cast<GraphMode>(decode_mode),
                           .mixed_mode = static_cast<GraphMode>(mixed_mode),
                           .mixed_max_tokens = limit[3],
                           .varlen_decode = varlen_decode,
                           .num_ubatches = limit[4],
                           .ubatch_min_tokens = limit[5],
                           .policy = GraphPolicy{policy},
                           .diagonal = runs};
  const py::gil_scoped_release release;
  return std::make_shared<GraphTable>(config, clamp_loras);
}

// One array a field, in capture order; 0 stands for None.
py::tuple columns(const GraphTable& table) {
  const auto count = static_cast<py::ssize_t>(table.graphs().num_graphs());
  std::array<py::array_t<std::int64_t>, 7> out;
  std::array<std::int64_t*, 7> data{};
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = py::array_t<std::int64_t>(count);
    data[i] = out[i].mutable_data();
  }
  const auto loras = table.lora_cases();
  const GraphShapes& graphs = table.graphs();
  for (std::size_t i = 0; i < graphs.shapes.size(); ++i) {
    const GraphShape& shape = graphs.shapes[i];
    for (std::size_t lora = 0; lora < loras.size(); ++lora) {
      const std::int64_t at = graphs.index_of(static_cast<std::int32_t>(i),
                                              static_cast<std::int64_t>(lora));
      data[0][at] = static_cast<std::int64_t>(shape.mode);
      data[1][at] = shape.num_tokens;
      data[2][at] = shape.num_reqs;
      data[3][at] = shape.query_len;
      data[4][at] = loras[lora];
      data[5][at] = shape.max_query_len;
      data[6][at] = shape.num_ubatches;
    }
  }
  return py::make_tuple(out[0], out[1], out[2], out[3], out[4], out[5], out[6]);
}

// Length of the result: that of the longest column.
std::size_t num_steps(std::initializer_list<const Int64Array*> arrays) {
  std::size_t count = 1;
  for (const Int64Array* array : arrays) {
    const auto size = static_cast<std::size_t>(array->size());
    if (size != 1) count = size;
  }
  for (const Int64Array* array : arrays) {
    const auto size = static_cast<std::size_t>(array->size());
    if (size != 1 && size != count) {
      throw py::value_error("columns differ in length");
    }
  }
  return count;
}

py::tuple dispatch_columns(const GraphTable& table, const Int64Array& num_reqs,
                           const Int64Array& num_tokens,
                           const Int64Array& query_len,
                           const Int64Array& num_active_loras,
                           std::int64_t max_query_len,
                           std::int64_t num_ubatches) {
  const std::size_t count =
      num_steps({&num_reqs, &num_tokens, &query_len, &num_active_loras});
  py::array_t<std::int64_t> out(static_cast<py::ssize_t>(count));
  const std::span<std::int64_t> values(out.mutable_data(), count);
  const StepColumns steps{span_of(num_reqs),  span_of(num_tokens),
                          span_of(query_len), span_of(num_active_loras),
                          max_query_len,      num_ubatches};
  std::int64_t bad;
  {
    const py::gil_scoped_release release;
    bad = dispatch_many(table, steps, values);
  }
  return py::make_tuple(bad, out);
}

py::tuple explain_many(const GraphTable& table, const Int64Array& num_reqs,
                       const Int64Array& query_len,
                       std::int64_t num_active_loras) {
  const std::size_t count = num_steps({&num_reqs, &query_len});
  const auto size = static_cast<py::ssize_t>(count);
  py::array_t<std::int64_t> graph(size);
  py::array_t<std::int64_t> own(size);
  py::array_t<std::int64_t> hidden_by(size);
  std::int64_t* const graph_out = graph.mutable_data();
  std::int64_t* const own_out = own.mutable_data();
  std::int64_t* const hidden_out = hidden_by.mutable_data();
  const auto reqs = span_of(num_reqs);
  const auto lens = span_of(query_len);
  require_counts(reqs, 0, false, "num_reqs out of range");
  require_counts(lens, 1, false, "query_len out of range");
  if (num_active_loras < 0) {
    throw py::value_error("num_active_loras out of range");
  }
  {
    const py::gil_scoped_release release;
    for (std::size_t i = 0; i < count; ++i) {
      const std::int64_t b = reqs[reqs.size() == 1 ? 0 : i];
      const std::int64_t q = lens[lens.size() == 1 ? 0 : i];
      const Served served = table.explain({.num_reqs = b,
                                           .num_tokens = b * q,
                                           .query_len = q,
                                           .num_active_loras = num_active_loras,
                                           .max_query_len = q});
      graph_out[i] = served.graph;
      own_out[i] = served.own;
      hidden_out[i] = served.hidden_by;
    }
  }
  return py::make_tuple(graph, own, hidden_by);
}

// One flag a graph, in capture order.
py::array_t<bool> used(const GraphTable& table, const Int64Array& diagonal) {
  const auto marks = table.used_shapes(runs_from(diagonal));
  const GraphShapes& graphs = table.graphs();
  py::array_t<bool> out(static_cast<py::ssize_t>(graphs.num_graphs()));
  bool* const data = out.mutable_data();
  for (std::size_t i = 0; i < graphs.shapes.size(); ++i) {
    for (std::int64_t lora = 0; lora < graphs.num_lora_cases; ++lora) {
      data[graphs.index_of(static_cast<std::int32_t>(i), lora)] = marks[i] != 0;
    }
  }
  return out;
}

py::tuple candidates(const GraphTable& table) {
  const CandidateTable rows = table.candidates();
  return py::make_tuple(to_array(rows.lora_cases), to_array(rows.first_tokens),
                        to_array(rows.last_tokens), to_array(rows.offsets),
                        to_array(rows.indices));
}

// What the bound dispatch function carries: the table, and Python's Graph
// objects, each made when first asked for.
class BoundDispatch {
 public:
  BoundDispatch(std::shared_ptr<const GraphTable> table, py::type graph_type,
                py::object refuse)
      : table_(std::move(table)),
        graph_type_(std::move(graph_type)),
        refuse_(std::move(refuse)),
        made_(std::make_unique<std::atomic<PyObject*>[]>(
            static_cast<std::size_t>(table_->graphs().num_graphs()))) {
    for (const char* mode : {"NONE", "PIECEWISE", "FULL"}) {
      modes_.emplace_back(mode);
    }
  }
  BoundDispatch(const BoundDispatch&) = delete;
  BoundDispatch& operator=(const BoundDispatch&) = delete;
  ~BoundDispatch() {
    const std::int64_t count = table_->graphs().num_graphs();
    for (std::int64_t i = 0; i < count; ++i) {
      Py_XDECREF(made_[static_cast<std::size_t>(i)].load());
    }
  }

  // A new reference, or nullptr with a Python error set.
  PyObject* serve(const Step& step) {
    if (!table_->is_sound(step)) {
      return PyObject_CallFunction(refuse_.ptr(), "LLLLLLL", step.num_reqs,
                                   step.num_tokens, step.query_len,
                                   step.num_active_loras, step.max_query_len,
                                   step.num_ubatches, table_->max_num_seqs());
    }
    const std::int64_t at = table_->dispatch(step);
    if (at < 0) return make_none(step);
    auto& cell = made_[static_cast<std::size_t>(at)];
    PyObject* graph = cell.load(std::memory_order_acquire);
    if (graph == nullptr) {
      graph = make(at);
      if (graph == nullptr) return nullptr;
      PyObject* expected = nullptr;
      // Another thread may have been first: its object is the one to keep.
      if (!cell.compare_exchange_strong(expected, graph)) {
        Py_DECREF(graph);
        graph = expected;
      }
    }
    Py_INCREF(graph);
    return graph;
  }

 private:
  static py::object count_or_none(std::int64_t value) {
    return value == 0 ? py::none() : py::object(py::int_(value));
  }

  PyObject* call(const py::object& mode, std::int64_t num_tokens,
                 const py::object& num_reqs, const py::object& query_len,
                 std::int64_t loras, const py::object& max_query_len,
                 std::int64_t num_ubatches) {
    // Graph is a named tuple: tuple's own constructor spares the Python frame
    // of the class's __new__.
    const py::tuple fields =
        py::make_tuple(mode, num_tokens, num_reqs, query_len, loras,
                       max_query_len, num_ubatches);
    const py::tuple args = py::make_tuple(fields);
    auto* const type = reinterpret_cast<PyTypeObject*>(graph_type_.ptr());
    return PyTuple_Type.tp_new(type, args.ptr(), nullptr);
  }

  PyObject* make(std::int64_t at) {
    const auto [position, lora] = table_->locate(at);
    const GraphShape& shape = table_->graphs().shapes[position];
    return call(modes_[static_cast<std::size_t>(shape.mode)], shape.num_tokens,
                count_or_none(shape.num_reqs), count_or_none(shape.query_len),
                table_->lora_cases()[lora], count_or_none(shape.max_query_len),
                shape.num_ubatches);
  }

  PyObject* make_none(const Step& step) {
    return call(modes_[0], step.num_tokens, py::int_(step.num_reqs), py::none(),
                table_->effective_loras(step.num_active_loras), py::none(),
                step.num_ubatches);
  }

  std::shared_ptr<const GraphTable> table_;
  py::type graph_type_;
  py::object refuse_;
  std::vector<py::str> modes_;
  std::unique_ptr<std::atomic<PyObject*>[]> made_;
};

constexpr const char* kCapsuleName = "specgrid.dispatch";
constexpr std::array<const char*, 6> kNames = {
    "num_reqs",         "num_tokens",    "query_len",
    "num_active_loras", "max_query_len", "num_ubatches"};
constexpr std::size_t kPositional = 4;

// Sets the field; -1 marks a query length that was given but is not positive.
bool read_field(PyObject* value, std::size_t field, std::int64_t& out) {
  const bool optional = field == 2 || field == 4;
  if (optional && value == Py_None) {
    out = 0;
    return true;
  }
  int overflow = 0;
  out = PyLong_AsLongLongAndOverflow(value, &overflow);
  if (out == -1 && PyErr_Occurred() != nullptr) return false;
  // No step has as many: such a number is out of range, or finds no graph.
  if (overflow != 0) out = overflow * std::numeric_limits<std::int64_t>::max();
  if (optional && out <= 0) out = -1;
  return true;
}

PyObject* dispatch_call(PyObject* self, PyObject* const* args, Py_ssize_t nargs,
                        PyObject* names) {
  auto* bound =
      static_cast<BoundDispatch*>(PyCapsule_GetPointer(self, kCapsuleName));
  if (bound == nullptr) return nullptr;
  std::array<std::int64_t, 6> fields = {-1, -1, 0, 0, 0, 1};
  std::array<bool, 6> given{};
  const auto count = static_cast<std::size_t>(nargs);
  if (count > kPositional) {
    PyErr_Format(PyExc_TypeError,
                 "dispatch() takes at most 4 positional arguments (%zd given)",
                 nargs);
    return nullptr;
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (!read_field(args[i], i, fields[i])) return nullptr;
    given[i] = true;
  }
  const Py_ssize_t extra = names == nullptr ? 0 : PyTuple_GET_SIZE(names);
  for (Py_ssize_t k = 0; k < extra; ++k) {
    PyObject* const name = PyTuple_GET_ITEM(names, k);
    std::size_t field = 0;
    while (field < kNames.size() &&
           PyUnicode_CompareWithASCIIString(name, kNames[field]) != 0) {
      ++field;
    }
    if (field == kNames.size() || given[field]) {
      PyErr_Format(PyExc_TypeError,
                   field == kNames.size()
                       ? "dispatch() got an unexpected keyword argument '%U'"
                       : "dispatch() got multiple values for argument '%U'",
                   name);
      return nullptr;
    }
    if (!read_field(args[nargs + k], field, fields[field])) return nullptr;
    given[field] = true;
  }
  if (!given[0] || !given[1]) {
    PyErr_SetString(PyExc_TypeError,
                    "dispatch() needs num_reqs and num_tokens");
    return nullptr;
  }
  return bound->serve({.num_reqs = fields[0],
                       .num_tokens = fields[1],
                       .query_len = fields[2],
                       .num_active_loras = fields[3],
                       .max_query_len = fields[4],
                       .num_ubatches = fields[5]});
}

// Every interpreter keeps a pointer to it and none writes, which the C type
// does not say.
const PyMethodDef dispatch_def = {
    "dispatch",
    // The documented way to register a METH_FASTCALL function.
    reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&dispatch_call)),
    METH_FASTCALL | METH_KEYWORDS,
    "dispatch(num_reqs, num_tokens, query_len=None, num_active_loras=0, *, "
    "max_query_len=None, num_ubatches=1)\n--\n\n"
    "The graph that serves a step."};

py::object bind_dispatch(const std::shared_ptr<GraphTable>& table,
                         py::type graph_type, py::object refuse) {
  auto bound = std::make_unique<BoundDispatch>(table, std::move(graph_type),
                                               std::move(refuse));
  PyObject* const capsule =
      PyCapsule_New(bound.get(), kCapsuleName, [](PyObject* owner) {
        delete static_cast<BoundDispatch*>(
            PyCapsule_GetPointer(owner, kCapsuleName));
      });
  if (capsule == nullptr) throw py::error_already_set();
  bound.release();
  const auto owner = py::reinterpret_steal<py::object>(capsule);
  PyObject* const function = PyCFunction_NewEx(
      const_cast<PyMethodDef*>(&dispatch_def), owner.ptr(), nullptr);
  if (function == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(function);
}

}  // namespace

void bind_graphs(py::module_& m) {
  py::class_<GraphTable, std::shared_ptr<GraphTable>>(m, "GraphTable")
      .def(py::init(&make_table), py::arg("sizes").noconvert(),
           py::arg("query_lens").noconvert(), py::arg("lora_cases").noconvert(),
           py::arg("diagonal").noconvert(), py::arg("limits").noconvert(),
           py::arg("decode_mode"), py::arg("mixed_mode"),
           py::arg("varlen_decode"), py::arg("policy"), py::arg("clamp_loras"))
      .def_property_readonly(
          "num_graphs",
          [](const GraphTable& table) { return table.graphs().num_graphs(); })
      .def("columns", &columns)
      .def("dispatch_many", &dispatch_columns, py::arg("num_reqs").noconvert(),
           py::arg("num_tokens").noconvert(), py::arg("query_len").noconvert(),
           py::arg("num_active_loras").noconvert(), py::arg("max_query_len"),
           py::arg("num_ubatches"))
      .def("explain_many", &explain_many, py::arg("num_reqs").noconvert(),
           py::arg("query_len").noconvert(), py::arg("num_active_loras"))
      .def("used", &used, py::arg("diagonal").noconvert())
      .def("candidates", &candidates)
      .def("bind_dispatch", &bind_dispatch, py::arg("graph_type"),
           py::arg("refuse"));
}

}  // namespace specgrid
