# deb.cmake: `cpack -G DEB` in the build folder makes a Debian package of what `cmake --install` installs. deb_tree.cmake makes
# of that tree what Debian's policy asks for.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME mgpuc)
set(CPACK_PACKAGE_VENDOR "the mgpuc authors")
set(CPACK_PACKAGE_CONTACT "mgpuc maintainers <maintainers@mgpuc.example>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "compiler from neural networks to native programs")
set(CPACK_PACKAGE_DESCRIPTION "mgpuc takes a neural network written in a small language and makes one
native program that trains it on every device of the machine, evaluates it
and predicts with it. The network is differentiated, fused and split over
the devices ahead of the run. The program needs no Python and no framework.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_MULTIARCH "${CMAKE_LIBRARY_ARCHITECTURE}")
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_SOURCE_DIR}/packaging/deb_tree.cmake)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION devel)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
# a program is made by a C compiler and linked with zlib; libraries that programs open where they are there
set(CPACK_DEBIAN_PACKAGE_DEPENDS "gcc | c-compiler, libc6-dev | libc-dev, zlib1g-dev")
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "libdnnl2, libturbojpeg0, libpng16-16, libhdf5-103-1, libutf8proc2")
find_program(SHLIBDEPS dpkg-shlibdeps)
if(SHLIBDEPS)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
else()
  string(PREPEND CPACK_DEBIAN_PACKAGE_DEPENDS "libc6, zlib1g, ")
endif()
include(CPack)
