// Runs a fuzz target on saved inputs, one line of hexadecimal digits each: what
// compilers without libFuzzer link in its place.
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size);

int main(int count, char** arguments) {
  std::size_t inputs = 0;
  for (int i = 1; i < count; ++i) {
    std::ifstream file(arguments[i]);
    std::string line;
    while (std::getline(file, line)) {
      std::vector<std::uint8_t> bytes;
      for (std::size_t at = 0; at + 1 < line.size(); at += 2) {
        bytes.push_back(static_cast<std::uint8_t>(
            std::stoul(line.substr(at, 2), nullptr, 16)));
      }
      LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
      ++inputs;
    }
  }
  std::printf("%zu saved inputs replayed\n", inputs);
  return inputs == 0 ? 1 : 0;
}
