// A small planning problem that two test files share.
#ifndef SPECGRID_TESTS_WITH_GROUPS_HPP_
#define SPECGRID_TESTS_WITH_GROUPS_HPP_

#include <cstdint>

#include "core/plan_shared.hpp"

namespace specgrid {

// Two query lengths whose rounded sizes meet the top, so that there are groups.
inline SharedProblem with_groups(std::int64_t num_reqs) {
  SharedProblem p;
  p.query_lens = {2, 3};
  p.max_num_seqs = num_reqs;
  p.max_decode_tokens = p.max_size = 3 * num_reqs;
  for (std::int64_t size = 0; size <= p.max_size; ++size) {
    p.full_time.push_back(100 + 10 * size);
    p.piecewise_time.push_back(140 + 10 * size);
    p.graph_bytes.push_back(1 + size % 3);
    p.graph_seconds.push_back(1 + size % 2);
    if (size > 0) p.sizes.push_back(size);
  }
  for (std::int64_t n = 1; n <= num_reqs; ++n) {
    for (const std::int64_t tier : {0, 1}) {
      p.decode_tier.push_back(tier);
      p.decode_reqs.push_back(n);
      p.decode_weight.push_back(n + tier);
      p.decode_eager.push_back(400);
      p.decode_required.push_back(0);
    }
  }
  return p;
}

}  // namespace specgrid

#endif  // SPECGRID_TESTS_WITH_GROUPS_HPP_
