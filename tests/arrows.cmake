# Checks the direction of includes, and that only autograd/base/files.h reads files. A room is a folder in the list
# below. A file may include files of its own room and of earlier rooms. A folder that is not in the list is an error.
# Run: cmake -P tests/arrows.cmake
cmake_policy(VERSION 3.24)
set(rooms
    autograd/base autograd/kernels autograd/tensor autograd/graph autograd/ops autograd/engine
    autograd/check autograd nn/io nn/layers nn/optim nn nn/lab nn/lab/settings nn/lab/tasks nn/lab/train
    nn/lab/run nn/lab/study nn/lab.h
    tools/plot tools/mpi tools/heed tools/bench tools/peers examples tests)
# Folders of tools/heed that all commands share. A folder may include the folders before it. "heed" means
# the files directly in tools/heed. Every other folder of tools/heed belongs to one command.
set(shared_folders report command_line heed)
set(pictures_may_know autograd/base autograd/tensor tools/plot)
get_filename_component(root ${CMAKE_CURRENT_LIST_DIR} DIRECTORY)

# Returns the first room that contains the path, and the index of this room in `rooms`. The folders
# autograd and nn directly contain only umbrella headers: nn/nn.h includes the rooms before "nn", and
# nn/lab.h includes all rooms of autograd and nn.
function(room_of path room_result rank_result)
  set(rank 0)
  foreach(room ${rooms})
    if(path STREQUAL room OR (path MATCHES "^${room}/[^/]+$" AND NOT path STREQUAL "nn/lab.h")
       OR (NOT room MATCHES "^(autograd|nn|nn/lab)$" AND path MATCHES "^${room}/"))
      set(${room_result} ${room} PARENT_SCOPE)
      set(${rank_result} ${rank} PARENT_SCOPE)
      return()
    endif()
    math(EXPR rank "${rank} + 1")
  endforeach()
  set(${room_result} "" PARENT_SCOPE)
  set(${rank_result} -1 PARENT_SCOPE)
endfunction()

# Returns the folder of a file in tools/heed, and the rank of the folder. The rank of a shared folder is its
# index in `shared_folders`. The folder of a command has a higher rank than all shared folders.
function(program_folder path folder_result rank_result)
  if(path MATCHES "^tools/heed/([^/]+)/")
    set(folder ${CMAKE_MATCH_1})
  else()
    set(folder heed)
  endif()
  list(FIND shared_folders ${folder} rank)
  if(rank EQUAL -1)
    list(LENGTH shared_folders rank)
  endif()
  set(${folder_result} ${folder} PARENT_SCOPE)
  set(${rank_result} ${rank} PARENT_SCOPE)
endfunction()

file(GLOB_RECURSE files RELATIVE ${root} ${root}/autograd/*.h ${root}/autograd/*.cpp ${root}/nn/*.h
     ${root}/nn/*.cpp ${root}/tools/*.h ${root}/tools/*.cpp ${root}/examples/*.h ${root}/examples/*.cpp)
set(failures "")
set(count 0)
foreach(path ${files})
  room_of(${path} room rank)
  if(rank EQUAL -1)
    list(APPEND failures "${path}: its folder is not in the list of rooms in tests/arrows.cmake")
  endif()
  file(STRINGS ${root}/${path} includes REGEX "^#include \"(autograd|nn|tools|examples|tests)/")
  foreach(line ${includes})
    string(REGEX REPLACE "^#include \"([^\"]+)\".*" "\\1" target "${line}")
    room_of(${target} target_room target_rank)
    math(EXPR count "${count} + 1")
    if(target_rank EQUAL -1 OR target_rank GREATER rank)
      list(APPEND failures "${path} (${room}) includes ${target} (${target_room})")
    endif()
    if(path MATCHES "^tools/heed/" AND target MATCHES "^tools/heed/")
      program_folder(${path} folder folder_rank)
      program_folder(${target} target_folder target_folder_rank)
      if(NOT folder STREQUAL target_folder AND NOT target_folder_rank LESS folder_rank)
        list(APPEND failures "${path} (${folder}) includes ${target} (${target_folder})")
      endif()
    endif()
    if(room STREQUAL "tools/plot" AND NOT target_room IN_LIST pictures_may_know)
      list(APPEND failures "${path} (pictures) includes ${target}")
    endif()
    if(path MATCHES "^autograd/kernels/reference/" AND target MATCHES "^autograd/kernels/simd/")
      list(APPEND failures "${path} (the reference) includes ${target}")
    endif()
  endforeach()
  # read_file() and InputFile reject pipes and files that are too long, and report errors in the middle of a file.
  # They also reject the files in /proc, which memory.cpp reads.
  file(STRINGS ${root}/${path} readers REGEX "std::(basic_)?i?f(ile)?stream|filebuf|(f|fre)open\\(")
  if(path STREQUAL "nn/lab/train/cost/memory.cpp")
    set(readers "")
  endif()
  foreach(line ${readers})
    list(APPEND failures "${path} reads a file without autograd/base/files.h: ${line}")
  endforeach()
  # A public header may include only the standard library and headers of heed.
  if(path MATCHES "^(autograd|nn)/.*\\.h$" AND NOT path MATCHES "-inl\\.h$")
    file(STRINGS ${root}/${path} foreign REGEX "^#include <(fmt|nlohmann|toml|CLI|hwy|stb|catch2|gtest)")
    foreach(line ${foreign})
      list(APPEND failures "${path} is a public header and contains ${line}")
    endforeach()
  endif()
endforeach()
if(failures OR count LESS 50)
  list(JOIN failures "\n  " text)
  message(FATAL_ERROR "forbidden includes (of ${count}):\n  ${text}")
endif()
message(STATUS "${count} includes, all allowed")
