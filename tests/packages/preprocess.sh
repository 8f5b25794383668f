#!/bin/sh
# usage: preprocess.sh COMPILER ARGUMENT...
#
# Runs the preprocessor for ccache (CCACHE_PREFIX_CPP, set by objects.sh) without line markers, so
# that ccache's key has no paths and the same text in another folder is the same object. Debug
# information has paths and lines in it: with an option -g the line markers stay.
for argument; do
  case "$argument" in
    -g0) ;;
    -g*) exec "$@" ;;
  esac
done
exec "$@" -P
