// The tuner: arrays in, arrays out. Sizes are checked here because everything
// behind trusts them; values were checked in Python.
#include "bindings/pybind11.hpp"
// Own headers follow pybind11, which must come first.
#include "bindings/interruptible.hpp"
#include "core/tune_compress.hpp"
#include "core/tune_grid.hpp"
#include "core/tune_joint.hpp"
#include "core/tune_surface.hpp"

namespace specgrid {
namespace {

using DoubleArray = py::array_t<double, py::array::c_style>;

std::span<const double> span_of(const DoubleArray& array) {
  return {array.data(), static_cast<std::size_t>(array.size())};
}

std::span<const std::int64_t> span_of(const Int64Array& array) {
  return specgrid::span_of(array);
}

void require(bool condition, const char* what) {
  if (!condition) throw py::value_error(what);
}

template <typename T>
py::array_t<T> shaped(const std::vector<T>& values,
                      std::vector<py::ssize_t> shape) {
  return py::array_t<T>(std::move(shape), values.data());
}

SurfacePoints points_from(const Int64Array& batches, const Int64Array& contexts,
                          const DoubleArray& step_us) {
  require(batches.size() > 0 && batches.size() == contexts.size() &&
              batches.size() == step_us.size(),
          "point arrays differ in length or are empty");
  return {span_of(batches), span_of(contexts), span_of(step_us)};
}

py::array_t<double> surface(const Int64Array& batches,
                            const Int64Array& contexts,
                            const DoubleArray& step_us, const DoubleArray& rows,
                            const Int64Array& columns, int threads) {
  const SurfacePoints points = points_from(batches, contexts, step_us);
  const std::vector<double> out =
      interruptible(kNoTimeLimit, [&](const StopRequested& stop) {
        return surface_rows(points, span_of(rows), span_of(columns), threads,
                            stop);
      });
  return shaped(out, {rows.size(), columns.size()});
}

// One (batches, contexts, step_us) triple per label.
using LabelPoints =
    std::vector<std::tuple<Int64Array, Int64Array, DoubleArray>>;

// The part of the input that the grid and the report share.
TuneInput input_from(const LabelPoints& points, std::int64_t max_num_seqs,
                     const Int64Array& columns, const DoubleArray& padded_batch,
                     const DoubleArray& extra_us, const DoubleArray& weights,
                     int threads) {
  const auto labels = static_cast<py::ssize_t>(points.size());
  require(labels > 0 && max_num_seqs > 0 && columns.size() > 0,
          "the grid is empty");
  for (const DoubleArray* served : {&padded_batch, &extra_us}) {
    require(served->size() == 0 || served->size() == labels * max_num_seqs,
            "padding must be labels x max_num_seqs");
  }
  require(
      weights.size() == 0 || weights.size() == max_num_seqs * columns.size(),
      "weights must be max_num_seqs x columns");
  TuneInput input;
  for (const auto& [batches, contexts, step_us] : points) {
    input.surfaces.push_back(points_from(batches, contexts, step_us));
  }
  input.max_num_seqs = max_num_seqs;
  input.columns = span_of(columns);
  input.padded_batch = span_of(padded_batch);
  input.extra_us = span_of(extra_us);
  input.weights = span_of(weights);
  input.threads = threads;
  return input;
}

py::tuple grid(const LabelPoints& points, const DoubleArray& tokens_per_step,
               std::int64_t max_num_seqs, const Int64Array& columns,
               const DoubleArray& padded_batch, const DoubleArray& extra_us,
               const DoubleArray& weights, double max_us_per_token,
               double tolerance, std::int64_t max_rows,
               std::int64_t max_columns, int threads) {
  TuneInput input = input_from(points, max_num_seqs, columns, padded_batch,
                               extra_us, weights, threads);
  const auto labels = static_cast<py::ssize_t>(points.size());
  require(tokens_per_step.size() == labels * columns.size(),
          "tokens_per_step must be labels x columns");
  require(max_rows >= 0 && max_columns >= 0, "limits must not be negative");
  require(max_rows == 0 || max_columns > 0, "blocks need columns");
  input.tokens_per_step = span_of(tokens_per_step);
  input.max_us_per_token = max_us_per_token;
  input.tolerance = tolerance;
  input.max_rows = static_cast<std::size_t>(max_rows);
  input.max_columns = static_cast<std::size_t>(max_columns);
  const TuneGrid out = interruptible(
      kNoTimeLimit,
      [&](const StopRequested& stop) { return tune_grid(input, stop); });
  const std::vector<py::ssize_t> cells{max_num_seqs, columns.size()};
  const std::vector<py::ssize_t> blocks{
      static_cast<py::ssize_t>(out.row_ends.size()), labels,
      static_cast<py::ssize_t>(out.column_ends.size())};
  return py::make_tuple(
      shaped(out.best, cells), shaped(out.best_us_per_token, cells),
      shaped(out.second_us_per_token, cells), shaped(out.flags, cells),
      to_array(out.row_ends), to_array(out.column_ends),
      shaped(out.cost, blocks), shaped(out.worst_ratio, blocks));
}

// `tokens` is assumptions x labels x columns, `table` max_num_seqs x columns.
py::tuple report(const LabelPoints& points, const DoubleArray& tokens,
                 std::int64_t max_num_seqs, const Int64Array& columns,
                 const DoubleArray& padded_batch, const DoubleArray& extra_us,
                 const DoubleArray& weights,
                 const py::array_t<std::int32_t, py::array::c_style>& table,
                 int threads) {
  const TuneInput input = input_from(points, max_num_seqs, columns,
                                     padded_batch, extra_us, weights, threads);
  const auto labels = static_cast<py::ssize_t>(points.size());
  require(tokens.ndim() == 3 && tokens.shape(0) > 0 &&
              tokens.shape(1) == labels && tokens.shape(2) == columns.size(),
          "tokens must be assumptions x labels x columns");
  require(table.size() == max_num_seqs * columns.size(),
          "table must be max_num_seqs x columns");
  const std::span<const std::int32_t> choices(
      table.data(), static_cast<std::size_t>(table.size()));
  bool in_range = true;
  const TuneReport out =
      interruptible(kNoTimeLimit, [&](const StopRequested& stop) {
        for (const std::int32_t label : choices) {
          in_range &= label >= 0 && label < labels;
        }
        return in_range ? tune_report(input, span_of(tokens), choices, stop)
                        : TuneReport{};
      });
  require(in_range, "table holds a label that does not exist");
  const std::vector<py::ssize_t> cells{max_num_seqs, columns.size()};
  const std::vector<py::ssize_t> sums{tokens.shape(0), labels};
  return py::make_tuple(
      shaped(out.us_per_token, cells), shaped(out.best_changes, cells),
      out.cost, out.best_cost, out.worst_ratio, shaped(out.label_cost, sums),
      shaped(out.table_cost, sums), to_array(out.cells_measured));
}

// (totals, runs): runs is n x 4, (entries, begin, end, label).
py::tuple line(const DoubleArray& cost, std::int64_t max_entries,
               bool non_increasing) {
  require(cost.ndim() == 2 && cost.size() > 0, "cost must be rows x labels");
  require(cost.shape(1) <= 255, "at most 255 labels");
  require(max_entries > 0, "max_entries must be positive");
  const auto labels = static_cast<std::size_t>(cost.shape(1));
  const std::vector<LineChoice> choices =
      interruptible(kNoTimeLimit, [&](const StopRequested& stop) {
        return compress_line(span_of(cost), labels,
                             static_cast<std::size_t>(max_entries),
                             non_increasing, stop);
      });
  std::vector<double> totals;
  std::vector<std::int64_t> runs;
  for (std::size_t e = 0; e < choices.size(); ++e) {
    totals.push_back(choices[e].total);
    for (const Run& run : choices[e].runs) {
      runs.insert(runs.end(), {static_cast<std::int64_t>(e + 1),
                               static_cast<std::int64_t>(run.begin),
                               static_cast<std::int64_t>(run.end), run.label});
    }
  }
  return py::make_tuple(
      to_array(totals),
      shaped(runs, {static_cast<py::ssize_t>(runs.size() / 4), 4}));
}

// (totals, batch_bands, rectangles): rectangles is n x 6, (entries, row_begin,
// row_end, column_begin, column_end, label).
py::tuple bands(const DoubleArray& cost, std::int64_t max_entries,
                bool non_increasing, int threads) {
  require(cost.ndim() == 3 && cost.size() > 0,
          "cost must be rows x labels x columns");
  require(cost.shape(1) <= 255, "at most 255 labels");
  require(max_entries > 0, "max_entries must be positive");
  const auto rows = static_cast<std::size_t>(cost.shape(0));
  const auto labels = static_cast<std::size_t>(cost.shape(1));
  const auto columns = static_cast<std::size_t>(cost.shape(2));
  const std::vector<BandChoice> choices =
      interruptible(kNoTimeLimit, [&](const StopRequested& stop) {
        return compress_bands(span_of(cost), rows, labels, columns,
                              static_cast<std::size_t>(max_entries),
                              non_increasing, threads, stop);
      });
  std::vector<double> totals;
  std::vector<std::int64_t> batch_bands;
  std::vector<std::int64_t> rectangles;
  for (std::size_t e = 0; e < choices.size(); ++e) {
    totals.push_back(choices[e].total);
    batch_bands.push_back(choices[e].batch_bands ? 1 : 0);
    for (const Rectangle& r : choices[e].rectangles) {
      rectangles.insert(rectangles.end(),
                        {static_cast<std::int64_t>(e + 1),
                         static_cast<std::int64_t>(r.row_begin),
                         static_cast<std::int64_t>(r.row_end),
                         static_cast<std::int64_t>(r.column_begin),
                         static_cast<std::int64_t>(r.column_end), r.label});
    }
  }
  return py::make_tuple(
      to_array(totals), to_array(batch_bands),
      shaped(rectangles, {static_cast<py::ssize_t>(rectangles.size() / 6), 6}));
}

// (totals, segments): segments is n x 5, (graphs, begin, end, label, eager).
py::tuple joint(const DoubleArray& share, const DoubleArray& graph_us,
                const DoubleArray& eager_us, double run_us,
                std::int64_t max_graphs) {
  require(share.size() > 0 && max_graphs >= 0, "nothing to plan");
  require(graph_us.ndim() == 2 && graph_us.shape(1) == share.size() &&
              graph_us.size() == eager_us.size(),
          "times must be labels x batches");
  JointInput input;
  input.labels = static_cast<std::size_t>(graph_us.shape(0));
  input.share = span_of(share);
  input.graph_us = span_of(graph_us);
  input.eager_us = span_of(eager_us);
  input.run_us = run_us;
  input.max_graphs = static_cast<std::size_t>(max_graphs);
  const std::vector<JointChoice> choices = interruptible(
      kNoTimeLimit,
      [&](const StopRequested& stop) { return tune_joint(input, stop); });
  std::vector<double> totals;
  std::vector<std::int64_t> segments;
  for (std::size_t g = 0; g < choices.size(); ++g) {
    totals.push_back(choices[g].total);
    for (const JointSegment& s : choices[g].segments) {
      segments.insert(
          segments.end(),
          {static_cast<std::int64_t>(g), static_cast<std::int64_t>(s.begin),
           static_cast<std::int64_t>(s.end), s.label, s.eager ? 1 : 0});
    }
  }
  return py::make_tuple(
      to_array(totals),
      shaped(segments, {static_cast<py::ssize_t>(segments.size() / 5), 5}));
}

}  // namespace

void bind_tune(py::module_& m) {
  m.def("tune_surface", &surface, py::arg("batches").noconvert(),
        py::arg("contexts").noconvert(), py::arg("step_us").noconvert(),
        py::arg("rows").noconvert(), py::arg("columns").noconvert(),
        py::arg("threads"));
  m.def("tune_grid", &grid, py::arg("points"),
        py::arg("tokens_per_step").noconvert(), py::arg("max_num_seqs"),
        py::arg("columns").noconvert(), py::arg("padded_batch").noconvert(),
        py::arg("extra_us").noconvert(), py::arg("weights").noconvert(),
        py::arg("max_us_per_token"), py::arg("tolerance"), py::arg("max_rows"),
        py::arg("max_columns"), py::arg("threads"));
  m.def("tune_report", &report, py::arg("points"),
        py::arg("tokens").noconvert(), py::arg("max_num_seqs"),
        py::arg("columns").noconvert(), py::arg("padded_batch").noconvert(),
        py::arg("extra_us").noconvert(), py::arg("weights").noconvert(),
        py::arg("table").noconvert(), py::arg("threads"));
  m.def("compress_line", &line, py::arg("cost").noconvert(),
        py::arg("max_entries"), py::arg("non_increasing"));
  m.def("compress_bands", &bands, py::arg("cost").noconvert(),
        py::arg("max_entries"), py::arg("non_increasing"), py::arg("threads"));
  m.def("tune_joint", &joint, py::arg("share").noconvert(),
        py::arg("graph_us").noconvert(), py::arg("eager_us").noconvert(),
        py::arg("run_us"), py::arg("max_graphs"));
}

}  // namespace specgrid
