// Any server's graphs and any steps, against vLLM's rules by lists and scans.
// The model shares no code with the core: it lists every descriptor, sorts them
// and tries candidates one by one, as vLLM does.
#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "core/dispatch.hpp"
#include "fuzz/input.hpp"

namespace specgrid::fuzz {
namespace {

struct Desc {  // one graph; 0 stands for "any" or "not bounded"
  GraphMode mode = GraphMode::kNone;
  std::int64_t tokens = 0, reqs = 0, query_len = 0, loras = 0;
  std::int64_t max_query_len = 0, ubatches = 1;
  bool operator==(const Desc&) const = default;
};

struct Server {
  std::vector<std::int64_t> sizes, query_lens, lora_cases;
  std::vector<DiagonalRun> diagonal;
  GraphConfig config;
  bool clamp_loras = true;
};

std::vector<std::int64_t> ascending(Input& input, std::int64_t most,
                                    std::int64_t count) {
  std::set<std::int64_t> values;
  for (std::int64_t i = input.in(1, count); i > 0; --i) {
    values.insert(input.in(1, most));
  }
  return {values.begin(), values.end()};
}

void read(Input& input, Server& server) {
  GraphConfig& c = server.config;
  server.sizes = ascending(input, 60, 9);
  server.query_lens = ascending(input, 7, 4);
  server.lora_cases = input.of<std::vector<std::int64_t>>(
      {{0}, {0}, {2, 0}, {1, 4, 0}, {3}, {0, 1, 2}});
  c.max_num_seqs = input.in(1, 20);
  c.max_size = input.one_in(4) ? input.in(1, 60) : server.sizes.back();
  c.decode_query_len = std::max(server.query_lens.back(), input.in(1, 8));
  // The decode and mixed routines of vLLM's five cudagraph modes.
  constexpr GraphMode kModes[5][2] = {
      {GraphMode::kNone, GraphMode::kNone},
      {GraphMode::kNone, GraphMode::kPiecewise},
      {GraphMode::kNone, GraphMode::kFull},
      {GraphMode::kFull, GraphMode::kNone},
      {GraphMode::kFull, GraphMode::kPiecewise}};
  const auto mode = static_cast<std::size_t>(input.in(0, 4));
  c.decode_mode = kModes[mode][0];
  c.mixed_mode = kModes[mode][1];
  c.mixed_max_tokens = input.one_in(4) ? input.in(1, 60) : 0;
  c.varlen_decode = c.decode_mode == GraphMode::kFull && input.one_in(5);
  if (input.one_in(4)) {
    c.num_ubatches = input.in(2, 3);
    c.ubatch_min_tokens = input.in(0, 20);
  }
  c.policy = GraphPolicy{static_cast<std::int32_t>(input.in(0, 2))};
  for (std::int64_t i = input.in(0, 4); i > 0; --i) {
    const std::int64_t lo = input.in(1, c.max_num_seqs);
    server.diagonal.push_back(
        {input.of(server.query_lens), lo, input.in(lo, c.max_num_seqs)});
  }
  c.sizes = server.sizes;
  c.query_lens = server.query_lens;
  c.lora_cases = server.lora_cases;
  c.diagonal = server.diagonal;
  server.clamp_loras = input.one_in(2);
}

class Model {
 public:
  explicit Model(const Server& server) : c_(server.config), server_(server) {
    std::vector<Desc> piecewise;
    std::vector<Desc> full;
    for (const std::int64_t size : c_.sizes) {
      for (const std::int64_t loras : c_.lora_cases) {
        for (const Desc& desc : descs_of(size, loras)) {
          auto& list = desc.mode == GraphMode::kFull ? full : piecewise;
          if (std::find(list.begin(), list.end(), desc) == list.end()) {
            list.push_back(desc);
          }
        }
      }
    }
    for (auto* list : {&piecewise, &full}) {
      std::stable_sort(
          list->begin(), list->end(),
          [](const Desc& a, const Desc& b) { return a.tokens > b.tokens; });
    }
    if (c_.policy == GraphPolicy::kReachable &&
        c_.decode_mode == GraphMode::kFull && !c_.varlen_decode) {
      const std::vector<Desc> all = full;
      std::erase_if(full, [&](const Desc& d) { return !reachable(all, d); });
    }
    descs_ = piecewise;
    descs_.insert(descs_.end(), full.begin(), full.end());
  }

  [[nodiscard]] const std::vector<Desc>& descs() const { return descs_; }

  [[nodiscard]] std::int64_t lora_case(std::int64_t active) const {
    if (active == 0) return 0;
    std::int64_t best = 0;
    std::int64_t largest = 0;
    for (const std::int64_t item : c_.lora_cases) {
      largest = std::max(largest, item);
      if (item >= active && (best == 0 || item < best)) best = item;
    }
    if (best != 0) return best;
    return largest != 0 && server_.clamp_loras ? largest : active;
  }

  // Graphs tried for a token count and a LoRA case, in order.
  [[nodiscard]] std::vector<std::int64_t> candidates(std::int64_t tokens,
                                                     std::int64_t loras) const {
    std::vector<std::int64_t> found;
    std::set<std::tuple<std::int64_t, std::int64_t>> kinds;
    std::int64_t level = 0;
    std::int64_t piecewise = -1;
    for (std::int64_t i = std::ssize(descs_) - 1; i >= 0; --i) {
      const Desc& d = descs_[static_cast<std::size_t>(i)];
      if (d.loras != loras || d.tokens < tokens) continue;
      if (d.mode == GraphMode::kPiecewise) {
        if (piecewise < 0) piecewise = i;
        continue;
      }
      if (level == 0) level = d.tokens;
      const bool tried = c_.policy == GraphPolicy::kVllm033
                             ? d.tokens == level
                             : kinds.emplace(d.query_len, d.ubatches).second;
      if (tried) found.push_back(i);
    }
    if (piecewise >= 0) found.push_back(piecewise);
    return found;
  }

  [[nodiscard]] std::int64_t dispatch(const Step& s) const {
    if (s.num_tokens == 0) return -1;
    for (const std::int64_t i :
         candidates(s.num_tokens, lora_case(s.num_active_loras))) {
      const Desc& d = descs_[static_cast<std::size_t>(i)];
      if ((d.query_len == 0 || d.query_len == s.query_len) &&
          (d.reqs == 0 || d.reqs >= s.num_reqs) &&
          (d.max_query_len == 0 ||
           (s.max_query_len >= 1 && s.max_query_len <= d.max_query_len)) &&
          d.ubatches == s.num_ubatches) {
        return i;
      }
    }
    return -1;
  }

  // Runs of one query length, with the widest step it can see as one more: a
  // request with one token left to prefill joins steps without drafts.
  [[nodiscard]] std::vector<DiagonalRun> runs_of(std::int64_t query_len) const {
    std::vector<DiagonalRun> runs;
    for (const DiagonalRun& run : c_.diagonal) {
      if (run.query_len == query_len) runs.push_back(run);
    }
    if (!runs.empty() && query_len == 1 && c_.decode_query_len > 1) {
      runs.push_back({query_len, c_.max_num_seqs, c_.max_num_seqs});
    }
    return runs;
  }

 private:
  [[nodiscard]] std::vector<Desc> descs_of(std::int64_t size,
                                           std::int64_t loras) const {
    std::vector<Desc> out;
    const std::int64_t most = c_.max_num_seqs * c_.decode_query_len;
    if (c_.decode_mode != GraphMode::kNone && c_.varlen_decode) {
      if (size <= most) {
        out.push_back({GraphMode::kFull, size, std::min(size, c_.max_num_seqs),
                       0, loras, c_.decode_query_len, 1});
      }
    } else if (c_.decode_mode != GraphMode::kNone) {
      for (const std::int64_t q : c_.query_lens) {
        const std::int64_t reqs = (size + q - 1) / q;
        if (reqs * q <= std::min(most, c_.max_size) &&
            reqs <= c_.max_num_seqs) {
          add({GraphMode::kFull, reqs * q, reqs, q, loras, 0, 1}, out);
        }
      }
    }
    const bool too_wide =
        c_.mixed_max_tokens != 0 && size > c_.mixed_max_tokens;
    if (c_.mixed_mode != GraphMode::kNone && !too_wide) {
      const bool full = c_.mixed_mode == GraphMode::kFull;
      add({c_.mixed_mode, size, full ? std::min(size, c_.max_num_seqs) : 0, 0,
           loras, 0, 1},
          out);
    }
    return out;
  }

  void add(const Desc& desc, std::vector<Desc>& out) const {
    out.push_back(desc);
    if (c_.num_ubatches == 1 || desc.reqs == 0 ||
        desc.tokens % desc.reqs != 0 || desc.tokens < c_.num_ubatches ||
        desc.tokens < c_.ubatch_min_tokens) {
      return;
    }
    Desc twin = desc;
    twin.query_len = desc.tokens / desc.reqs;
    twin.ubatches = c_.num_ubatches;
    out.push_back(twin);
  }

  // Some batch of the schedule, or its widest step, has no smaller graph of
  // this query length; or the graph is the largest and the widest step shrinks
  // to it.
  [[nodiscard]] bool reachable(const std::vector<Desc>& all,
                               const Desc& desc) const {
    std::int64_t below = 0;
    std::int64_t largest = 0;
    for (const Desc& d : all) {
      if (d.query_len != desc.query_len) continue;
      largest = std::max(largest, d.reqs);
      if (d.reqs < desc.reqs) below = std::max(below, d.reqs);
    }
    for (const DiagonalRun& run : runs_of(desc.query_len)) {
      if (std::max(run.batch_lo, below + 1) <=
          std::min(run.batch_hi, desc.reqs)) {
        return true;
      }
      if (desc.reqs == largest && run.batch_hi > largest) return true;
    }
    return false;
  }

  const GraphConfig& c_;
  const Server& server_;
  std::vector<Desc> descs_;
};

Desc desc_of(const Dispatcher& dispatcher, std::int64_t index) {
  const auto place = dispatcher.locate(index);
  const GraphShape& shape = dispatcher.graphs().shapes[place.shape];
  return {shape.mode,
          shape.num_tokens,
          shape.num_reqs,
          shape.query_len,
          dispatcher.lora_cases()[place.lora],
          shape.max_query_len,
          shape.num_ubatches};
}

void check_candidates(const Dispatcher& dispatcher, const Model& model) {
  const CandidateTable table = dispatcher.candidates();
  expect(table.offsets.size() == table.lora_cases.size() + 1, "offsets");
  for (std::size_t row = 0; row < table.lora_cases.size(); ++row) {
    const auto begin = table.indices.begin() + table.offsets[row];
    const auto end = table.indices.begin() + table.offsets[row + 1];
    for (const std::int64_t tokens :
         {table.first_tokens[row], table.last_tokens[row]}) {
      expect(std::vector<std::int64_t>(begin, end) ==
                 model.candidates(tokens, table.lora_cases[row]),
             "candidates of a row");
    }
  }
}

void check_explained(const Dispatcher& dispatcher, const Model& model,
                     const Step& step) {
  const Served served = dispatcher.explain(step);
  expect(served.graph == model.dispatch(step), "explained graph");
  const std::int64_t loras = model.lora_case(step.num_active_loras);
  std::int64_t own = -1;
  for (std::int64_t i = 0; i < std::ssize(model.descs()); ++i) {
    const Desc& d = model.descs()[static_cast<std::size_t>(i)];
    if (d.mode == GraphMode::kFull && d.query_len == step.query_len &&
        d.loras == loras && d.ubatches == 1 && d.tokens >= step.num_tokens) {
      own = i;  // largest first: the last one is the smallest
    }
  }
  if (step.num_tokens == 0 || own < 0 ||
      model.descs()[static_cast<std::size_t>(own)].reqs < step.num_reqs) {
    expect(served.own == -1 && served.hidden_by == -1, "nothing of its own");
    return;
  }
  expect(served.own == own, "its own graph");
  const auto tried = model.candidates(step.num_tokens, loras);
  const bool hidden = std::find(tried.begin(), tried.end(), own) == tried.end();
  expect(served.hidden_by == (hidden ? tried.front() : -1), "what hides it");
}

void check_used(const Dispatcher& dispatcher, const Model& model,
                const GraphConfig& config) {
  const auto used = dispatcher.used_shapes(config.diagonal);
  expect(used.size() == dispatcher.graphs().shapes.size(), "one mark a shape");
  for (std::int64_t i = 0; i < dispatcher.graphs().num_graphs(); ++i) {
    const Desc d = model.descs()[static_cast<std::size_t>(i)];
    std::int64_t below = 0;
    std::int64_t widest = 0;
    for (const Desc& other : model.descs()) {
      if (other.query_len != d.query_len || other.ubatches != d.ubatches) {
        continue;
      }
      widest = std::max(widest, other.reqs);
      if (other.reqs < d.reqs) below = std::max(below, other.reqs);
    }
    bool wanted = d.query_len == 0;
    for (const DiagonalRun& run : model.runs_of(d.query_len)) {
      wanted = wanted || (d.reqs == widest && widest < run.batch_hi);
      const std::int64_t batch = std::min(run.batch_hi, d.reqs);
      const Step step{batch,   batch * d.query_len, d.query_len,
                      d.loras, d.query_len,         d.ubatches};
      wanted = wanted || (std::max(run.batch_lo, below + 1) <= batch &&
                          model.dispatch(step) == i);
    }
    expect((used[dispatcher.locate(i).shape] != 0) == wanted, "used");
  }
}

void run(Input& input) {
  Server server;
  read(input, server);
  const GraphConfig& config = server.config;
  const Dispatcher dispatcher(config, server.clamp_loras);
  const Model model(server);
  expect(dispatcher.graphs().num_graphs() == std::ssize(model.descs()),
         "as many graphs");
  for (std::int64_t i = 0; i < dispatcher.graphs().num_graphs(); ++i) {
    expect(desc_of(dispatcher, i) == model.descs()[static_cast<std::size_t>(i)],
           "the same graph at the same place");
  }
  check_candidates(dispatcher, model);
  check_used(dispatcher, model, config);

  for (int i = 0; i < 24; ++i) {
    Step step{.num_reqs = input.in(0, config.max_num_seqs),
              .num_tokens = input.number(0, 70),
              .query_len = input.number(0, 8),
              .num_active_loras = input.number(0, 5),
              .max_query_len = input.number(0, 9),
              .num_ubatches = input.one_in(4) ? 2 : 1};
    if (input.one_in(2)) {
      step.query_len = input.in(0, 8);
      step.num_tokens = step.num_reqs * step.query_len;
    }
    if (!dispatcher.is_sound(step)) continue;
    const std::int64_t wanted = model.dispatch(step);
    expect(dispatcher.dispatch(step) == wanted, "the graph vLLM would replay");
    std::int64_t out = -7;
    const StepColumns columns{std::span(&step.num_reqs, 1),
                              std::span(&step.num_tokens, 1),
                              std::span(&step.query_len, 1),
                              std::span(&step.num_active_loras, 1),
                              step.max_query_len,
                              step.num_ubatches};
    expect(dispatch_many(dispatcher, columns, std::span(&out, 1)) == -1 &&
               out == wanted,
           "the same for many");
    if (step.num_ubatches == 1 && step.query_len > 0) {
      check_explained(dispatcher, model, step);
    }
  }
}

}  // namespace
}  // namespace specgrid::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  specgrid::fuzz::Input input(data, size);
  specgrid::fuzz::run(input);
  return 0;
}
