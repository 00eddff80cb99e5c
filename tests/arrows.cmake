# Reads every #include of ours and fails on an arrow that points up. A file's room is its folder;
# it may include its own room and those below. A folder that is in no room fails, too.
# Run: cmake -P tests/arrows.cmake
cmake_policy(VERSION 3.24)
set(rooms
    autograd/base autograd/kernels autograd/tensor autograd/graph autograd/ops autograd/engine
    autograd/check autograd nn/io nn/layers nn/optim nn nn/tasks nn/train nn/run nn/study nn/lab.h
    tools/plot tools/mpi tools/heed tools/peers examples tests)
set(pictures_may_know autograd/base autograd/tensor tools/plot)
get_filename_component(root ${CMAKE_CURRENT_LIST_DIR} DIRECTORY)

# The first of `rooms` that holds the path, and its place in the order. autograd/ and nn/ themselves
# hold only the umbrella headers, nn/nn.h of the rooms below it and nn/lab.h of all.
function(room_of path room_result rank_result)
  set(rank 0)
  foreach(room ${rooms})
    if(path STREQUAL room OR (path MATCHES "^${room}/[^/]+$" AND NOT path STREQUAL "nn/lab.h")
       OR (NOT room MATCHES "^(autograd|nn)$" AND path MATCHES "^${room}/"))
      set(${room_result} ${room} PARENT_SCOPE)
      set(${rank_result} ${rank} PARENT_SCOPE)
      return()
    endif()
    math(EXPR rank "${rank} + 1")
  endforeach()
  set(${room_result} "" PARENT_SCOPE)
  set(${rank_result} -1 PARENT_SCOPE)
endfunction()

file(GLOB_RECURSE files RELATIVE ${root} ${root}/autograd/*.h ${root}/autograd/*.cpp ${root}/nn/*.h
     ${root}/nn/*.cpp ${root}/tools/*.h ${root}/tools/*.cpp ${root}/examples/*.h ${root}/examples/*.cpp)
set(failures "")
set(count 0)
foreach(path ${files})
  room_of(${path} room rank)
  if(rank EQUAL -1)
    list(APPEND failures "${path}: its folder is no room of tests/arrows.cmake")
  endif()
  file(STRINGS ${root}/${path} includes REGEX "^#include \"(autograd|nn|tools|examples|tests)/")
  foreach(line ${includes})
    string(REGEX REPLACE "^#include \"([^\"]+)\".*" "\\1" target "${line}")
    room_of(${target} target_room target_rank)
    math(EXPR count "${count} + 1")
    if(target_rank EQUAL -1 OR target_rank GREATER rank)
      list(APPEND failures "${path} (${room}) includes ${target} (${target_room})")
    endif()
    if(room STREQUAL "tools/plot" AND NOT target_room IN_LIST pictures_may_know)
      list(APPEND failures "${path} (pictures) includes ${target}")
    endif()
    if(target MATCHES "^autograd/check/(catch2|googletest)\\.h$")
      list(APPEND failures "${path} includes ${target}, which is for tests")
    endif()
    if(path MATCHES "^autograd/kernels/reference/" AND target MATCHES "^autograd/kernels/simd/")
      list(APPEND failures "${path} (the reference) includes ${target}")
    endif()
  endforeach()
  # Public headers: the standard library and our own only; the two for tests are opt-in.
  if(path MATCHES "^(autograd|nn)/.*\\.h$" AND NOT path MATCHES "-inl\\.h$"
     AND NOT path MATCHES "^autograd/check/(catch2|googletest)\\.h$")
    file(STRINGS ${root}/${path} foreign REGEX "^#include <(fmt|nlohmann|toml|CLI|hwy|stb|catch2|gtest)")
    foreach(line ${foreign})
      list(APPEND failures "${path} is public and has ${line}")
    endforeach()
  endif()
endforeach()
if(failures OR count LESS 50)
  list(JOIN failures "\n  " text)
  message(FATAL_ERROR "forbidden arrows (of ${count} includes):\n  ${text}")
endif()
message(STATUS "${count} includes, all arrows allowed")
