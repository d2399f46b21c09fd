// The extension module: a list of what is bound, nothing else.
#include "bindings/pybind11.hpp"

PYBIND11_MODULE(_core, m, pybind11::mod_gil_not_used(),
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
