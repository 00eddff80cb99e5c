// The pictures of a run folder.
#pragma once

#include <filesystem>
#include <optional>

#include "nn/study/causality.h"
#include "nn/study/study.h"
#include "nn/train/trainer.h"

namespace heed {

/// The folder of --out, made if need be. IoError.
void make_folder(const std::filesystem::path& folder);

/// loss.png: the loss of each step and evaluation, beside the optimum and other reference losses of
/// the sequences that were evaluated last, if any. The axis is logarithmic where the largest loss
/// is more than ten times the smallest.
void draw_loss(const std::filesystem::path& file, const nn::Trainer& trainer,
               const std::optional<nn::Evaluation>& last);

/// attention.png: the weights of every layer and head on the task's example sequence, of a long one
/// on its first 256 tokens.
void draw_attention(const std::filesystem::path& file, const nn::Transformer& model,
                    const nn::Task& task, std::int64_t steps);
/// The bytes of these files.
std::string loss_png(const nn::Trainer& trainer, const std::optional<nn::Evaluation>& last);
std::string attention_png(const nn::Transformer& model, const nn::Task& task, std::int64_t steps);

/// weights.png, dA.png and dS.png in `folder`: the weights of every head, and the gradients of L,
/// the objective, by them and by the scores. Returns the files.
std::vector<std::filesystem::path> draw_study(const std::filesystem::path& folder,
                                              const nn::Study& study,
                                              const nn::Objective& objective,
                                              const std::vector<std::string>& tokens,
                                              const nn::TaskFacts& facts);

/// The reach matrix of each pass, where what is exactly 0 is gray. IoError if it cannot be written.
void draw_reach(const std::filesystem::path& file, const nn::Causality& causality);

}  // namespace heed
