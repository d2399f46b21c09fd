// How long work is asked whether to go on, and how it is told not to.
#ifndef SPECGRID_CORE_STOP_HPP_
#define SPECGRID_CORE_STOP_HPP_

#include <functional>

namespace specgrid {

// Answers true when the caller wants an answer now, be it a lesser one; once
// true, always true. Where the caller wants no answer at all it throws: the
// work then ends at once, its threads too, and passes the exception on. Called
// from the thread that started the work, at least every few milliseconds; an
// empty function never stops.
using StopRequested = std::function<bool()>;

// Asks within work that has no lesser answer, so only an exception ends it.
inline void ask(const StopRequested& stop) {
  if (stop) (void)stop();
}

}  // namespace specgrid

#endif  // SPECGRID_CORE_STOP_HPP_
