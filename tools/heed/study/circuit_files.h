// The circuits of a run as a value, and their files: arrays, pictures and page.
#pragma once

#include <cmath>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "nn/study/circuits.h"
#include "nn/study/path_cuts.h"
#include "tools/heed/pictures.h"
#include "tools/heed/report/report.h"

namespace heed {

/// Sentences that state what the maps leave out.
inline constexpr const char* kMapsLeaveOut =
    "Left out: the division of the final norm, MLPs, and what other layers write into the stream. "
    "Learned or sinusoidal positions are replaced by their mean.";

/// The maps of a head and their numbers.
struct HeadCircuit {
  nn::HeadIndex head;
  nn::FactoredMap qk;  ///< at the chosen distance
  nn::FactoredMap ov;
  nn::MapSummary matching;  ///< of `qk`
  nn::MapSummary copying;   ///< of `ov`
  nn::DistanceCurve curve;
};

/// A pair of heads: its composition score, its composed map, and the edge between them.
struct PairCircuit {
  nn::CompositionScore score;
  std::optional<nn::PathCut> edge;   ///< measured on sequences of the task; only for some pairs
  nn::FactoredMap map;               ///< undefined if it was not computed
  nn::MapSummary summary{NAN, NAN};  ///< of `map`

  /// Returns the score minus that of random weights.
  double above_random() const { return score.score - score.random_mean; }
  /// Returns the name of the edge, such as "L0H1:K:L1H0".
  std::string name() const;
};

/// The circuits of a run.
struct CircuitStudy {
  const nn::Circuits& circuits;
  std::optional<std::int64_t> distance;  ///< value of --distance
  std::vector<std::string> tokens;       ///< labels of the vocabulary
  std::vector<HeadCircuit> heads;        ///< in the order of nn::all_heads()
  std::vector<PairCircuit> pairs;        ///< by the measured effect, then by above_random()
  std::string sequences;                 ///< on which edges were measured: "32 sequences of sort"

  const nn::Transformer::Options& model() const { return circuits.options(); }
  /// Returns false above 4,096 tokens, and if the maps of all heads have more than 2^26 cells. Then
  /// only the largest entries of the maps are shown.
  bool has_maps() const;
  /// Returns " at distance 3" if the model has RoPE, and otherwise "".
  std::string at_distance() const;
  /// Returns the distances of the K- and Q-composed maps as text: " at distance 3", ", mean over
  /// distances 1 to 47", or "" without RoPE.
  std::string over_distances() const;
};

/// Writes circuits.safetensors and the pictures qk, ov, composed, positions and distance_curves, as
/// far as the model has their maps. Returns their paths. Throws IoError.
Files write_circuits(const std::filesystem::path& folder, const CircuitStudy& study,
                     const PictureSource& source);
/// Writes report.html, whose slider selects the distance of the QK maps. The page has as many
/// distances, from 0 on, as fit into 8 MB. `tables` is the result of tables_json(). Returns the
/// path. Throws IoError.
std::filesystem::path write_circuit_page(const std::filesystem::path& folder,
                                         const CircuitStudy& study, const PictureSource& source,
                                         const Value& tables);

}  // namespace heed
