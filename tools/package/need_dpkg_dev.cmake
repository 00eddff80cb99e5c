# cpack includes this file before it creates packages. Without dpkg-shlibdeps, cpack would create Debian packages that
# have no dependencies. Without the program `file`, cpack would fail with an error that does not name its package.
if(CPACK_GENERATOR STREQUAL "DEB")
  find_program(heed_shlibdeps dpkg-shlibdeps NO_CACHE)
  find_program(heed_file file NO_CACHE)
  if(NOT heed_shlibdeps OR NOT heed_file)
    message(FATAL_ERROR "dpkg-shlibdeps or file is missing. cpack needs both programs to find the dependencies of "
      "the Debian packages: apt-get install dpkg-dev file")
  endif()
endif()
