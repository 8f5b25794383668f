#!/bin/sh
# usage: preprocess.sh COMPILER ARGUMENT...
#
# Runs the preprocessor for ccache (CCACHE_PREFIX_CPP, set by objects.sh) without line markers. So
# ccache's key has no paths, and the same text in another folder gives the same object. Debug
# information contains paths and lines, so with an option -g the line markers stay.
for argument; do
  case "$argument" in
    -g0) ;;
    -g*) exec "$@" ;;
  esac
done
exec "$@" -P
