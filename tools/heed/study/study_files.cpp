#include "tools/heed/study/study_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "autograd/base/files.h"
#include "autograd/ops/ops.h"
#include "nn/io/npy.h"
#include "tools/heed/pictures.h"
#include "tools/heed/report/output.h"

namespace heed {
namespace {

namespace fs = std::filesystem;

// Studies of one sequence, of two runs and over time have one of the first four.
const std::vector<std::string> kStudyMarks = {"arrays.safetensors", "compare.csv", "over_time.csv",
                                              "report.html"};
const std::vector<std::string> kOtherStudyFiles = {"over_time.json", "over_time.png",
                                                   "patching.png", "cells.csv", "by_distance.png"};

// "dS.png", "dS_L0H1.png" or "dS_difference.png".
bool is_study_picture(const std::string& name) {
  return std::ranges::any_of(nn::map_quantities(), [&](const nn::MapQuantity& q) {
    const std::string view(q.picture.file);
    return !view.empty() && (name == view + ".png" || name == view + "_difference.png" ||
                             (name.starts_with(view + "_L") && name.ends_with(".png")));
  });
}

bool is_study_file(const std::string& name) {
  const auto is_in = [&](const std::vector<std::string>& names) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  return is_in(kStudyMarks) || is_in(kOtherStudyFiles) || is_study_picture(name) ||
         (name.starts_with("npy/") && name.ends_with(".npy"));
}

// An array with queries and keys, and where it is from.
struct Cells {
  std::string_view quantity;
  std::size_t layer;
  nn::Tensor values;  // [1, H, Tq, Tk]
};

std::vector<Cells> cells_of(const nn::Study& s) {
  std::vector<Cells> all;
  for (std::size_t l = 0; l < s.layers.size(); ++l) {
    all.push_back({"hook_attn_scores", l, s.layers[l].scores});
    all.push_back({"hook_attn_scores_grad", l, s.layers[l].scores_grad});
  }
  for (std::size_t l = 0; l < s.layers.size(); ++l) {
    all.push_back({"hook_pattern", l, s.layers[l].pattern});
    all.push_back({"hook_pattern_grad", l, s.layers[l].pattern_grad});
  }
  return all;
}

void append_cells(std::string& table, const Cells& cells) {
  const std::int64_t heads = cells.values.size(1), queries = cells.values.size(2),
                     keys = cells.values.size(3);
  const nn::Tensor all = contiguous(to(cells.values, autograd::float32));
  const float* value = all.data<float>();
  for (std::int64_t h = 0; h < heads; ++h)
    for (std::int64_t q = 0; q < queries; ++q)
      for (std::int64_t k = 0; k < keys; ++k)
        fmt::format_to(std::back_inserter(table), "{},{},{},{},{},{}\n", cells.quantity,
                       cells.layer, h, q, k, *value++);
}

}  // namespace

std::unique_ptr<nn::StagedFolder> open_study_folder(const std::string& out, const fs::path& usual,
                                                    bool overwrite) {
  fs::path folder = out.empty() ? usual : fs::path(out);
  const bool only_this_one = overwrite || !out.empty();
  for (int n = 2;; ++n) {
    try {
      auto study = std::make_unique<nn::StagedFolder>(
          folder, nn::ResultFiles{kStudyMarks, is_study_file, "npy"});
      if (overwrite || !study->holds_result()) {
        study->staging();
        return study;
      }
      if (only_this_one)
        usage_error(
            "--out {} holds a study already; choose another folder, or replace it with --overwrite",
            out);
    } catch (const nn::FolderInUse& e) {
      if (only_this_one) throw UsageError(e.what());
    }
    folder = usual.string() + fmt::format("-{}", n);
  }
}

std::string study_cells(const nn::Study& study) {
  constexpr std::int64_t kMostRows = 20'000'000;
  const std::vector<Cells> all = cells_of(study);
  std::int64_t rows = 0;
  for (const Cells& cells : all) rows += cells.values.numel();
  heed::check<autograd::ValueError>(rows <= kMostRows, "study", "a table of ", rows,
                                    " cells is more than ", kMostRows,
                                    "; take --export npy, or fewer tokens");
  std::string table = "quantity,layer,head,query,key,value\n";
  for (const Cells& cells : all) append_cells(table, cells);
  return table;
}

std::vector<std::filesystem::path> export_study(const std::filesystem::path& folder,
                                                const nn::Study& study, StudyExport form) {
  if (form == StudyExport::kCsv) {
    const std::filesystem::path file = folder / "cells.csv";
    autograd::write_file(file.string(), study_cells(study));
    return {file};
  }
  std::vector<std::filesystem::path> files;
  make_folder(folder / "npy");
  for (const auto& [name, x] : to_named(study)) {
    files.push_back(folder / "npy" / (name + ".npy"));
    nn::save_npy(files.back().string(), x);
  }
  return files;
}

}  // namespace heed
