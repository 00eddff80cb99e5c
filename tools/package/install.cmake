# Install rules for `cmake --install`. Users find the libraries with find_package(heed) or pkg-config.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/heed)

# Each library has its own export set, so that a user needs only the dependencies of the requested
# components.
function(install_library name)
  install(TARGETS ${ARGN} EXPORT heed-${name})
  install(EXPORT heed-${name} NAMESPACE heed:: DESTINATION ${package_dir} FILE heed-${name}-targets.cmake)
endfunction()
install_library(autograd heed_autograd heed_autograd_archive)
install_library(check heed_check)
install_library(nn heed_nn heed_nn_archive)
install_library(lab heed_lab heed_lab_archive)
set(folders autograd nn)
if(TARGET heed_plot)
  set(heed_plot_flag -lheed_plot)
  install_library(plot heed_plot)
  list(APPEND folders tools/plot)
endif()
foreach(folder ${folders})
  install(DIRECTORY ${folder}/ DESTINATION include/heed/${folder} FILES_MATCHING PATTERN "*.h")
endforeach()

write_basic_package_version_file(heed-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES tools/package/heed-config.cmake ${PROJECT_BINARY_DIR}/heed-config-version.cmake
        DESTINATION ${package_dir})

file(RELATIVE_PATH pc_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
foreach(pc heed heed-autograd)
  configure_file(tools/package/${pc}.pc.in ${pc}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${pc}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()

if(TARGET heed)
  install(TARGETS heed)
endif()

if(TARGET heed_mpi)
  install(TARGETS heed_mpi LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/heed)
endif()
