function __mypt_complete
  set -l word (commandline -ct)
  set -l lines (mypt complete fish (commandline -opc) "$word" 2>/dev/null)
  printf '%s\n' $lines[2..-1]
  test "$lines[1]" != files; or __fish_complete_path "$word"
end
for name in NAMES
  complete -c $name -f -a '(__mypt_complete)'
end
