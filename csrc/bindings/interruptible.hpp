// Long work without the GIL that Ctrl-C and a time limit can end.
#ifndef SPECGRID_BINDINGS_INTERRUPTIBLE_HPP_
#define SPECGRID_BINDINGS_INTERRUPTIBLE_HPP_

#include "bindings/pybind11.hpp"
// Own headers follow pybind11, which must come first.
#include <chrono>

#include "core/stop.hpp"

namespace specgrid {

constexpr double kNoTimeLimit = -1;

// Runs `work(stop)` without the GIL. Every twentieth of a second the thread
// that called asks Python whether a signal wants to be raised; if so the work
// is abandoned and the signal's exception raised. When `seconds` are over
// (below 0: never), `stop` answers true.
template <typename Work>
auto interruptible(double seconds, Work work) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kPause(50);
  struct Signalled {};
  const Clock::time_point begin = Clock::now();
  Clock::time_point next = begin + kPause;
  const StopRequested stop = [&] {
    const Clock::time_point now = Clock::now();
    if (now >= next) {
      next = now + kPause;
      const py::gil_scoped_acquire acquire;
      if (PyErr_CheckSignals() != 0) throw Signalled{};
    }
    return seconds >= 0 &&
           std::chrono::duration<double>(now - begin).count() >= seconds;
  };
  try {
    const py::gil_scoped_release release;
    return work(stop);
  } catch (const Signalled&) {
    throw py::error_already_set();  // what PyErr_CheckSignals left
  }
}

}  // namespace specgrid

#endif  // SPECGRID_BINDINGS_INTERRUPTIBLE_HPP_
