#compdef NAMES
_mypt() {
  local -a lines
  lines=("${(@f)$(mypt complete zsh "${(@)words[1,CURRENT]}" 2>/dev/null)}")
  [[ $lines[1] != files ]] || _files
  shift lines
  (( $#lines == 0 )) || _describe word lines
}
if [[ $funcstack[1] == _mypt ]]; then
  _mypt "$@"
else
  (( $+functions[compdef] )) || { autoload -U compinit && compinit -i }
  compdef _mypt NAMES
fi
