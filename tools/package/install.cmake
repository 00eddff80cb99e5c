# Install rules for `cmake --install` and `cpack`. The component `heed` contains the program, and the component
# `dev` contains headers and libraries. Users find the libraries with find_package(heed) or pkg-config.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/heed)
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME dev)

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
  install(TARGETS heed COMPONENT heed)
endif()

if(TARGET heed_mpi)
  install(TARGETS heed_mpi LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/heed COMPONENT mpi)
endif()

# The program heed prints the man page and the completions, so it must be able to run on this machine.
if(TARGET heed AND (NOT CMAKE_CROSSCOMPILING OR CMAKE_CROSSCOMPILING_EMULATOR))
  add_custom_command(
    OUTPUT heed.1
    COMMAND ${CMAKE_COMMAND} "-DPROGRAM=${CMAKE_CROSSCOMPILING_EMULATOR};$<TARGET_FILE:heed>"
            -DVERSION=${PROJECT_VERSION} -DOUTPUT=heed.1 -P ${PROJECT_SOURCE_DIR}/tools/package/man.cmake
    DEPENDS heed tools/package/man.cmake VERBATIM)
  set(printed ${PROJECT_BINARY_DIR}/heed.1)
  install(FILES ${printed} OPTIONAL DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT heed)
  foreach(completions "bash;heed.bash;bash-completion/completions" "zsh;_heed;zsh/vendor-completions"
          "fish;heed.fish;fish/vendor_completions.d")
    list(GET completions 0 shell)
    list(GET completions 1 file)
    list(GET completions 2 folder)
    add_custom_command(OUTPUT ${file} COMMAND heed completions ${shell} > ${file} DEPENDS heed)
    list(APPEND printed ${PROJECT_BINARY_DIR}/${file})
    install(FILES ${PROJECT_BINARY_DIR}/${file} OPTIONAL DESTINATION ${CMAKE_INSTALL_DATADIR}/${folder} COMPONENT heed)
  endforeach()
  add_custom_target(heed_printed ALL DEPENDS ${printed})
endif()

# Run cpack in the build folder; it needs the packages dpkg-dev and file. heed_*.deb contains the program,
# heed-mpi_*.deb contains its module for MPI (only if MPI is installed), and libheed-dev_*.deb contains headers and
# libraries.
set(CPACK_GENERATOR DEB)
set(CPACK_PROJECT_CONFIG_FILE ${PROJECT_SOURCE_DIR}/tools/package/need_dpkg_dev.cmake)
set(CPACK_PACKAGE_CONTACT "The developers of heed <heed@localhost>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL heed dev)
if(TARGET heed_mpi)
  list(APPEND CPACK_COMPONENTS_ALL mpi)
endif()
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_COMPONENT_HEED_DESCRIPTION "${PROJECT_DESCRIPTION}")
set(CPACK_DEBIAN_HEED_PACKAGE_NAME heed)
set(CPACK_DEBIAN_HEED_PACKAGE_SHLIBDEPS ON)
set(CPACK_COMPONENT_MPI_DESCRIPTION "${PROJECT_DESCRIPTION}: training by several processes")
set(CPACK_DEBIAN_MPI_PACKAGE_NAME heed-mpi)
set(CPACK_DEBIAN_MPI_PACKAGE_DEPENDS "heed (= ${PROJECT_VERSION}), openmpi-bin")
set(CPACK_DEBIAN_MPI_PACKAGE_SHLIBDEPS ON)
set(CPACK_COMPONENT_DEV_DESCRIPTION "${PROJECT_DESCRIPTION}: libraries, headers, CMake package, pkg-config")
set(CPACK_DEBIAN_DEV_PACKAGE_NAME libheed-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "libhwy-dev, libfmt-dev")
include(CPack)
