// The only file that includes pybind11; include it first.
#ifndef SPECGRID_BINDINGS_PYBIND11_HPP_
#define SPECGRID_BINDINGS_PYBIND11_HPP_

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <span>
#include <vector>

namespace specgrid {

namespace py = pybind11;

// A C-contiguous int64 array; Python callers have converted already.
using Int64Array = py::array_t<std::int64_t, py::array::c_style>;

inline std::span<const std::int64_t> span_of(const Int64Array& array) {
  return {array.data(), static_cast<std::size_t>(array.size())};
}

// Copies values into a new NumPy array.
template <typename T>
py::array_t<T> to_array(const std::vector<T>& values) {
  return py::array_t<T>(static_cast<py::ssize_t>(values.size()), values.data());
}

void bind_schedule(py::module_& m);
void bind_lookup(py::module_& m);
void bind_capture(py::module_& m);
void bind_tune(py::module_& m);
void bind_plan(py::module_& m);
void bind_graphs(py::module_& m);

}  // namespace specgrid

#endif  // SPECGRID_BINDINGS_PYBIND11_HPP_
