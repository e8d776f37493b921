# deb_tree.cmake: CPack runs it when all is installed, before that is packed
execute_process(COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/deb_tree ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/usr "${CPACK_PACKAGE_CONTACT}"
                "${CPACK_MULTIARCH}" COMMAND_ERROR_IS_FATAL ANY)
