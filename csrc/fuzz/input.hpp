// Numbers out of a fuzzer's bytes, and a check that stops it. Every string of
// bytes is some input; bytes that are missing read as zero.
#ifndef SPECGRID_FUZZ_INPUT_HPP_
#define SPECGRID_FUZZ_INPUT_HPP_

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <source_location>
#include <vector>

namespace specgrid::fuzz {

class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size)
      : data_(data), size_(size) {}

  [[nodiscard]] bool empty() const { return at_ == size_; }

  std::uint64_t bytes(int count) {
    std::uint64_t value = 0;
    for (int i = 0; i < count; ++i) {
      value = value << 8 | (at_ < size_ ? data_[at_++] : 0u);
    }
    return value;
  }

  // A number in low..high, from as few bytes as the range needs.
  std::int64_t in(std::int64_t low, std::int64_t high) {
    const auto range =
        static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
    int count = 1;
    while (count < 8 && range >> (8 * count) != 0) ++count;
    const std::uint64_t value = bytes(count);
    const std::uint64_t offset =
        range == std::numeric_limits<std::uint64_t>::max()
            ? value
            : value % (range + 1);
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(low) + offset);
  }

  bool one_in(std::int64_t n) { return in(1, n) == 1; }

  template <typename T>
  const T& of(const std::vector<T>& choices) {
    return choices[static_cast<std::size_t>(
        in(0, static_cast<std::int64_t>(choices.size()) - 1))];
  }

  // Mostly a small number within low..high, now and then one at an edge of the
  // types numbers travel in, or any at all.
  std::int64_t number(std::int64_t low, std::int64_t high) {
    const std::int64_t kind = in(0, 63);
    if (kind > 1) return in(low, high);
    if (kind == 1) return in(min64, max64);
    const std::int64_t edge = of<std::int64_t>(
        {0, 1, 255, 256, 65535, 65536, 2147483646, 2147483647, 2147483648,
         4294967295, 4294967296, max64 - 1, max64, min64});
    return one_in(4) ? ~edge : edge;  // ~edge is -edge - 1
  }

 private:
  static constexpr std::int64_t min64 =
      std::numeric_limits<std::int64_t>::min();
  static constexpr std::int64_t max64 =
      std::numeric_limits<std::int64_t>::max();

  const std::uint8_t* data_;
  std::size_t size_;
  std::size_t at_ = 0;
};

inline void expect(
    bool holds, const char* what,
    const std::source_location& at = std::source_location::current()) {
  if (holds) return;
  std::fprintf(stderr, "%s:%u: not so: %s\n", at.file_name(),
               static_cast<unsigned>(at.line()), what);
  std::abort();
}

}  // namespace specgrid::fuzz

#endif  // SPECGRID_FUZZ_INPUT_HPP_
