_mypt() {
  local IFS=$'\n' lines
  lines=($(mypt complete bash "${COMP_WORDS[@]:0:COMP_CWORD+1}" 2>/dev/null))
  COMPREPLY=("${lines[@]:1}")
  [[ ${lines[0]} != files ]] || COMPREPLY+=($(compgen -f -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o filenames -F _mypt NAMES
