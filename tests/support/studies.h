// Small float64 models and sequences for tests of studies.
#pragma once

#include <string>
#include <vector>

#include "nn/lab/study/donors.h"
#include "nn/lab/study/objective.h"
#include "nn/lab/tasks/task.h"
#include "tests/support/models.h"

namespace heed::lab::testing {
using namespace heed::nn::testing;

/// Returns a batch of the sequences `rows`. The target of each position is the next token.
inline Batch batch_of(const std::vector<std::vector<Index>>& rows) {
  std::vector<Sequence> sequences;
  for (const auto& row : rows) {
    Sequence s{row, {row.begin() + 1, row.end()}, std::vector<bool>(row.size(), true)};
    s.targets.push_back(kIgnored);
    s.counted.back() = false;
    sequences.push_back(s);
  }
  return make_batch(sequences);
}

/// Objective: the logit of token 4 minus the logit of token 2.
inline const Objective kDiff{Objective::kDifference, 4, 2, {}};

inline const Batch& one_sequence() {
  static const Batch batch = batch_of({{0, 3, 1, 3, 6, 2}});
  return batch;
}

inline const Batch& three_sequences() {
  static const Batch batch = batch_of({{0, 3, 1, 3, 6, 2}, {0, 1, 1, 5, 2, 4}, {2, 6, 5, 4, 0, 3}});
  return batch;
}

/// Returns two donors of each of the n sequences of a batch: the next sequence and the one after
/// it.
inline Donors next_donors(const Batch& batch) {
  Donors donors{batch, {}};
  const Index n = batch.inputs.size(0);
  for (const Index shift : {1, 2}) {
    std::vector<Index> rows;
    for (Index b = 0; b < n; ++b) rows.push_back((b + shift) % n);
    donors.rows.push_back(autograd::from_data(rows, {n}));
  }
  return donors;
}

inline Transformer::Options small_options() {
  Transformer::Options o;
  o.vocab = 7, o.context = 8, o.attention.d_model = 12, o.attention.heads = 3, o.layers = 2;
  o.attention.dtype = float64;
  return o;
}

/// Returns the variant_models() of small_options(), and four more models: small_options()
/// unchanged, with post-norm, without norms, and without MLPs.
inline std::vector<NamedModel> studied_models() {
  const Transformer::Options base = small_options();
  std::vector<NamedModel> models = variant_models(base);
  models.push_back({"default", base});
  const auto add = [&](const std::string& name, auto change) {
    Transformer::Options o = base;
    change(o);
    models.push_back({name, o});
  };
  add("post-norm", [](auto& o) { o.norm = NormPlacement::kPost; });
  add("no norm", [](auto& o) { o.norm = NormPlacement::kNone; });
  add("attention alone", [](auto& o) { o.mlp = false; });
  return models;
}

}  // namespace heed::lab::testing
