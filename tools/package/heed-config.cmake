# find_package(heed 0.1 [COMPONENTS autograd nn plot]) gives heed::autograd, heed::nn, heed::plot;
# without COMPONENTS, all that is installed.
cmake_policy(VERSION 3.24)
include(CMakeFindDependencyMacro)
set(heed_components autograd nn plot)
set(heed_dependencies_autograd Threads hwy)
set(heed_dependencies_nn fmt)
set(heed_dependencies_plot fmt)

set(heed_wanted ${heed_FIND_COMPONENTS})
if(NOT heed_wanted)
  set(heed_wanted ${heed_components})
endif()
list(PREPEND heed_wanted autograd)  # below all others
list(REMOVE_DUPLICATES heed_wanted)
foreach(component IN LISTS heed_wanted)
  set(heed_${component}_FOUND FALSE)
  if(EXISTS ${CMAKE_CURRENT_LIST_DIR}/heed-${component}-targets.cmake)
    foreach(dependency IN LISTS heed_dependencies_${component})
      find_dependency(${dependency})
    endforeach()
    include(${CMAKE_CURRENT_LIST_DIR}/heed-${component}-targets.cmake)
    set(heed_${component}_FOUND TRUE)
  elseif(heed_FIND_REQUIRED_${component})
    set(heed_FOUND FALSE)
    set(heed_NOT_FOUND_MESSAGE "heed has no component '${component}' here; it has autograd and nn, \
and plot where the program was built with it")
  endif()
endforeach()
