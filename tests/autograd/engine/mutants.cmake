# Writes a copy of the sources of the graph, the engine and the views with eight mistakes. The function
# mutant(NAME) switches a mistake on: if the environment variable HEED_MUTANT is its name.
#
# usage: cmake -DOUT=FILE -P tests/autograd/engine/mutants.cmake
get_filename_component(autograd ${CMAKE_CURRENT_LIST_DIR}/../../../autograd ABSOLUTE)
file(GLOB sources ${autograd}/graph/*.cpp ${autograd}/engine/*.cpp)
set(text [[
#include <cstdlib>
#include <string_view>
static bool mutant(std::string_view name) {
  const char* chosen = std::getenv("HEED_MUTANT");
  return chosen && chosen == name;
}
]])
foreach(source ${sources} ${autograd}/ops/views.cpp)
  file(READ ${source} content)
  string(APPEND text "${content}")
endforeach()

# Replaces the expression `right`, which must occur once, by `wrong` if the mutant is switched on.
function(mutate name right wrong)
  string(FIND "${text}" "${right}" first)
  string(FIND "${text}" "${right}" last REVERSE)
  if(first EQUAL -1 OR NOT first EQUAL last)
    message(FATAL_ERROR "mutant ${name}: '${right}' must occur once in autograd/graph, autograd/engine and "
                        "autograd/ops/views.cpp; update tests/autograd/engine/mutants.cmake")
  endif()
  string(REPLACE "${right}" "(mutant(\"${name}\") ? (${wrong}) : (${right}))" text "${text}")
  set(text "${text}" PARENT_SCOPE)
endfunction()

mutate(skipped_sum "sums[i] && grads[i].defined()" "sums[i] && grads[i].defined() && !sums[i]->defined()")
mutate(aliased_sum "TensorAccess::is_sole_owner(x)" "true")
mutate(early_release "!options.retain_graph && !options.create_graph" "!options.create_graph")
mutate(wrong_order "counter.fetch_add(1, std::memory_order_relaxed)" "counter.fetch_add(1) ^ 1")
mutate(hook_called_twice "hook(g)" "hook(hook(g))")
mutate(unscattered_view "unslice(v.grad, place)" "unslice(v.grad, {place.shape, place.axis, 0, place.step})")
mutate(lost_broadcast "sum_to(g, input.shape())"
       "sum_to(g, input.shape()) * (double(input.shape().numel()) / double(g.numel()))")
mutate(stale_version_accepted "t.version() == saved" "true")
file(WRITE ${OUT} "${text}")
