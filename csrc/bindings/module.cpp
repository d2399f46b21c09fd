// The extension module: a list of what is bound, and where it may be loaded.
#include "bindings/pybind11.hpp"

// Both tags hold because neither this nor the core has a variable that changes.
// What pybind11 keeps, it keeps per interpreter.
PYBIND11_MODULE(unguarded, m, pybind11::mod_gil_not_used(),
                pybind11::multiple_interpreters::per_interpreter_gil()) {
  m.doc() = "Native core of specgrid. Private: use the specgrid package.";
  m.attr("__version__") = SPECGRID_VERSION;
  specgrid::bind_schedule(m);
  specgrid::bind_lookup(m);
  specgrid::bind_capture(m);
  specgrid::bind_tune(m);
  specgrid::bind_plan(m);
  specgrid::bind_graphs(m);
}

// The entry. Python 3.11 has no such tag, and there pybind11 waits for ever for
// the lock of the first interpreter: so the module refuses before it begins.
extern "C" PYBIND11_EXPORT PyObject* PyInit__core();
extern "C" PYBIND11_EXPORT PyObject* PyInit__core() {
#ifndef Py_mod_multiple_interpreters
  if (PyInterpreterState_Get() != PyInterpreterState_Main()) {
    PyErr_SetString(
        PyExc_ImportError,
        "specgrid._core loads in sub-interpreters from Python 3.12 on");
    return nullptr;
  }
#endif
  return PyInit_unguarded();
}
