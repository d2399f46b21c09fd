// Capture sizes and the V1 runner's rounding.
#include "bindings/pybind11.hpp"
// Own headers follow pybind11, which must come first.
#include <algorithm>

#include "core/capture.hpp"

namespace specgrid {
namespace {

// `limits`: max_num_seqs, query_len, max_num_batched_tokens, platform_ceiling,
// multiple_of. `tiers`: (query_len, max_batch) pairs, flat; empty for none.
py::tuple capture(const Int64Array& limits, const Int64Array& tiers,
                  std::int32_t rule, bool interactivity,
                  const std::optional<Int64Array>& explicit_sizes,
                  std::optional<std::int64_t> explicit_max) {
  const auto limit = span_of(limits);
  if (limit.size() != 5 || std::ranges::min(limit) < 1) {
    throw py::value_error("limits must be five numbers of at least 1");
  }
  std::vector<DecodeTier> decode_tiers;
  const auto flat = span_of(tiers);
  for (std::size_t i = 0; i + 1 < flat.size(); i += 2) {
    if (flat[i] < 1) throw py::value_error("query lengths must be at least 1");
    decode_tiers.push_back({flat[i], flat[i + 1]});
  }
  CaptureConfig config{.max_num_seqs = limit[0],
                       .query_len = limit[1],
                       .tiers = decode_tiers,
                       .max_num_batched_tokens = limit[2],
                       .platform_ceiling = limit[3],
                       .explicit_sizes = std::nullopt,
                       .explicit_max = explicit_max,
                       .interactivity = interactivity,
                       .rule = CaptureRule{rule},
                       .multiple_of = limit[4]};
  if (explicit_sizes) config.explicit_sizes = span_of(*explicit_sizes);
  const CaptureResult result = capture_sizes(config);
  return py::make_tuple(static_cast<std::int32_t>(result.fault), result.value,
                        to_array(result.sizes), to_array(result.origins));
}

}  // namespace

void bind_capture(py::module_& m) {
  m.def("capture_sizes", &capture, py::arg("limits").noconvert(),
        py::arg("tiers").noconvert(), py::arg("rule"), py::arg("interactivity"),
        py::arg("explicit_sizes"), py::arg("explicit_max"),
        "(fault, value, sizes, origins) under a capture rule.");
  m.def(
      "align_sizes",
      [](const Int64Array& sizes, std::int64_t max_size,
         std::int64_t query_len) {
        if (query_len < 1)
          throw py::value_error("query_len must be at least 1");
        return to_array(align_sizes(span_of(sizes), max_size, query_len));
      },
      py::arg("sizes").noconvert(), py::arg("max_size"), py::arg("query_len"),
      "Sizes rounded up to multiples of query_len.");
}

}  // namespace specgrid
