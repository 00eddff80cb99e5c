# Fails if a file in the folder of a command (tools/heed/COMMAND) includes the JSON header or prints a
# result. A command must return an Out, which heed.cpp prints.
# Run: cmake -P tests/commands.cmake
cmake_policy(VERSION 3.24)
get_filename_component(root ${CMAKE_CURRENT_LIST_DIR} DIRECTORY)
# Files that may print: `heed generate` prints its text while it is generated.
set(streams generate/generate_command.cpp)
set(shared command_line report)  # folders that are not commands

file(GLOB folders RELATIVE ${root}/tools/heed ${root}/tools/heed/*)
list(FILTER folders EXCLUDE REGEX "\\.")
list(REMOVE_ITEM folders ${shared})
set(failures "")
foreach(folder ${folders})
  file(GLOB_RECURSE files RELATIVE ${root}/tools/heed ${root}/tools/heed/${folder}/*.cpp
       ${root}/tools/heed/${folder}/*.h)
  foreach(path ${files})
    file(STRINGS ${root}/tools/heed/${path} lines
         REGEX "^#include|(^|[^a-z_])((fmt::)?print|put_text|fputs|fwrite)\\(|std::cout")
    foreach(line ${lines})
      if(line MATCHES "nn/io/json\\.h|nlohmann")
        list(APPEND failures "${path}: ${line}")
      elseif(NOT line MATCHES "^#include" AND NOT path IN_LIST streams)
        list(APPEND failures "${path}: ${line}")
      endif()
    endforeach()
  endforeach()
endforeach()
if(failures)
  list(JOIN failures "\n  " text)
  message(FATAL_ERROR "commands of tools/heed must return an Out, but these lines print or use JSON:\n  ${text}")
endif()
message(STATUS "no command of tools/heed prints a result")
