# Completion of llmprof in fish: `llmprof completions fish > ~/.config/fish/completions/llmprof.fish`
function __llmprof_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l found ($words[1] __complete $words[2..] "$current" 2> /dev/null)
    if test (count $found) -gt 0
        printf '%s\n' $found
    else
        __fish_complete_path "$current"
    end
end
complete -c llmprof -f -a '(__llmprof_complete)'
