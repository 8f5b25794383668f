# Completion of tenon for bash. Needs nothing of the package bash-completion.

_tenon_names() {
  local path
  for path in /dev/shm/tenon-* /dev/shm/torch_*; do
    if [[ -f $path || -S $path ]]; then printf '/%s\n' "${path##*/}"; fi
  done
}

_tenon() {
  local current="${COMP_WORDS[COMP_CWORD]}" previous="" command="" word
  local commands="doctor ls top gc inspect verify export convert weights bench"
  local options="--help --json --color"
  COMPREPLY=()
  if ((COMP_CWORD > 0)); then previous="${COMP_WORDS[COMP_CWORD - 1]}"; fi
  # bash takes --color=always apart at the sign.
  if [[ $current == "=" ]]; then
    current=""
  elif [[ $previous == "=" ]] && ((COMP_CWORD > 1)); then
    previous="${COMP_WORDS[COMP_CWORD - 2]}"
  fi
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case "$word" in
      doctor | ls | top | gc | inspect | verify | export | convert | weights | bench)
        command="$word"
        break
        ;;
    esac
  done

  case "$previous" in
    --color)
      mapfile -t COMPREPLY < <(compgen -W "auto always never" -- "$current")
      return
      ;;
    --directory)
      mapfile -t COMPREPLY < <(compgen -d -- "$current")
      return
      ;;
    --min-age | --interval | --methods | --lower | --module | --group | --timeout) return ;;
    --budget) return ;;
    --form)
      mapfile -t COMPREPLY < <(compgen -W "safetensors torch" -- "$current")
      return
      ;;
  esac
  case "$command" in
    "") options="--help --version --color" ;;
    doctor) ;;
    ls) options+=" --names --arenas --leases --queues --all --prometheus" ;;
    top) options+=" --interval --once" ;;
    gc) options+=" --yes --torch --min-age" ;;
    inspect) options+=" --code --ops --methods --module" ;;
    verify) ;;
    export) options+=" --bytecode --no-bytecode --methods --lower --forks-at-once --flatbuffer --debug-tables --package --module" ;;
    convert) options+=" --form --duplicate-shared --skip" ;;
    weights) options+=" --directory --group --device --budget --timeout" ;;
    bench) options+=" --quick" ;;
  esac
  if [[ $current == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$options" -- "$current")
    return
  fi
  case "$command" in
    "") mapfile -t COMPREPLY < <(compgen -W "$commands" -- "$current") ;;
    doctor | ls | gc) mapfile -t COMPREPLY < <(compgen -d -- "$current") ;;
    weights) mapfile -t COMPREPLY < <(compgen -W "ls keep drop switch" -- "$current"; compgen -f -- "$current") ;;
    inspect) mapfile -t COMPREPLY < <(compgen -f -- "$current"; compgen -W "$(_tenon_names)" -- "$current") ;;
    verify | export | convert) mapfile -t COMPREPLY < <(compgen -f -- "$current") ;;
  esac
}

complete -o filenames -F _tenon tenon
