import type { Command } from 'commander';
import { type OutlinedOption, type OutlinedValue, type OutlinedVerb, outlineOf } from './outline.ts';
import type { ExitCode, RunContext } from './run-context.ts';

interface CompletionOptions {
  /** The argument of the verb, one of `SHELLS`. */
  readonly shell: string;
  readonly program: Command;
}

/**
 * `millrace completion bash`: prints a script generated from the grammar, with every verb of this version.
 */
export async function completion(
  { shell, program }: CompletionOptions,
  context: RunContext,
): Promise<ExitCode> {
  const script = SHELLS[shell];
  if (script === undefined) return 2;
  context.out.write(script(outlineOf(program)));
  return 0;
}

type Script = (verbs: readonly OutlinedVerb[]) => string;

/** The script for each shell. It holds every word to complete; pressing Tab starts no process. */
export const SHELLS: Readonly<Record<string, Script>> = { bash, zsh, fish };

/**
 * The key of a verb, as the shells build it from the words before the cursor: a space before each verb, such
 * as ` egress explain`. The program itself has the empty key.
 */
function placeOf(path: readonly string[]): string {
  return path.map((name) => ` ${name}`).join('');
}

function placesOf(verbs: readonly OutlinedVerb[]): string {
  return verbs.flatMap(({ path }) => (path.length === 0 ? [] : [`'${placeOf(path)}'`])).join('|');
}

/** All words that can come next, except values of options. */
function wordsOf({ verbs, options, values }: OutlinedVerb): string[] {
  return [...verbs, ...values.flatMap(({ choices }) => choices), ...options.flatMap(({ flags }) => flags)];
}

type Kind = 'file' | 'folder' | 'choices' | 'unknown';

function kindOf({ name, choices }: OutlinedValue): Kind {
  if (choices.length > 0) return 'choices';
  if (/^(file|folder)$/i.test(name)) return name.toLowerCase() as Kind;
  return /^dir(ectory)?$/i.test(name) ? 'folder' : 'unknown';
}

interface Valued extends OutlinedOption {
  readonly value: OutlinedValue;
}

function valuedOf({ options }: OutlinedVerb): Valued[] {
  return options.filter((option): option is Valued => option.value !== undefined);
}

/** The lines of a `case` over the verb and the previous word. Each line completes the value of one option. */
function valueCases(verbs: readonly OutlinedVerb[], answer: (value: OutlinedValue) => string): string {
  const lines = verbs.flatMap((verb) =>
    valuedOf(verb).map(({ flags, value }) => {
      const patterns = flags.map((flag) => `'${placeOf(verb.path)} ${flag}'`).join('|');
      return `    ${patterns}) ${answer(value)}; return ;;`;
    }),
  );
  return lines.join('\n');
}

function bash(verbs: readonly OutlinedVerb[]): string {
  const answers: Record<Kind, (value: OutlinedValue) => string> = {
    choices: ({ choices }) => `COMPREPLY=($(compgen -W '${choices.join(' ')}' -- "$now"))`,
    file: () => `compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- "$now"))`,
    folder: () => `compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -d -- "$now"))`,
    unknown: () => 'COMPREPLY=()',
  };
  const words = verbs.map((verb) => `    '${placeOf(verb.path)}') words='${wordsOf(verb).join(' ')}' ;;`);
  return `# Completion of millrace for bash. Made by: millrace completion bash
_millrace() {
  local now="\${COMP_WORDS[COMP_CWORD]}" before="\${COMP_WORDS[COMP_CWORD - 1]}" verb='' words='' nth
  for ((nth = 1; nth < COMP_CWORD; nth++)); do
    case "$verb \${COMP_WORDS[nth]}" in
      ${placesOf(verbs)}) verb="$verb \${COMP_WORDS[nth]}" ;;
    esac
  done
  case "$verb $before" in
${valueCases(verbs, (value) => answers[kindOf(value)](value))}
  esac
  case "$verb" in
${words.join('\n')}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$now"))
}
complete -F _millrace millrace
`;
}

function zsh(verbs: readonly OutlinedVerb[]): string {
  const answers: Record<Kind, (value: OutlinedValue) => string> = {
    choices: ({ choices }) => `compadd -- ${choices.join(' ')}`,
    file: () => '_files',
    folder: () => '_files -/',
    unknown: () => `_message 'value'`,
  };
  const described = (verb: OutlinedVerb) => [
    ...verb.verbs.map((name) => {
      const below = verbs.find(({ path }) => path.join(' ') === [...verb.path, name].join(' '));
      return `'${name}:${quotable(below?.description ?? '')}'`;
    }),
    ...verb.values.flatMap(({ choices }) => choices.map((choice) => `'${choice}'`)),
    ...verb.options.flatMap(({ flags, description }) =>
      flags.map((flag) => `'${flag}:${quotable(description)}'`),
    ),
  ];
  const words = verbs.map((verb) => `    '${placeOf(verb.path)}') found=(${described(verb).join(' ')}) ;;`);
  return `#compdef millrace
# Completion of millrace for zsh. Made by: millrace completion zsh
_millrace() {
  local verb='' word
  local -a found
  for word in "\${(@)words[2,CURRENT-1]}"; do
    case "$verb $word" in
      ${placesOf(verbs)}) verb="$verb $word" ;;
    esac
  done
  case "$verb \${words[CURRENT-1]}" in
${valueCases(verbs, (value) => answers[kindOf(value)](value))}
  esac
  case "$verb" in
${words.join('\n')}
  esac
  _describe 'millrace' found
}
if [[ "\${funcstack[1]}" == _millrace ]]; then _millrace "$@"; else compdef _millrace millrace; fi
`;
}

function fish(verbs: readonly OutlinedVerb[]): string {
  const places = verbs.flatMap(({ path }) => (path.length === 0 ? [] : [`'${placeOf(path)}'`]));
  const lines = verbs.flatMap((verb) => {
    const here = `complete -c millrace -n "__millrace_at '${placeOf(verb.path)}'"`;
    const below = verb.verbs.map((name) => {
      const one = verbs.find(({ path }) => path.join(' ') === [...verb.path, name].join(' '));
      return `${here} -a ${name} -d '${quotable(one?.description ?? '')}'`;
    });
    const choices = verb.values.flatMap(({ choices }) => choices.map((choice) => `${here} -a ${choice}`));
    return [...below, ...choices, ...verb.options.map((option) => `${here} ${fishOption(option)}`)];
  });
  return `# Completion of millrace for fish. Made by: millrace completion fish
function __millrace_at
  set -l verb ''
  for word in (commandline -opc)[2..-1]
    switch "$verb $word"
      case ${places.join(' ')}
        set verb "$verb $word"
    end
  end
  test "$verb" = "$argv[1]"
end
complete -c millrace -f
${lines.join('\n')}
`;
}

function fishOption({ flags, description, value }: OutlinedOption): string {
  const names = flags.map((flag) => (flag.startsWith('--') ? `-l ${flag.slice(2)}` : `-s ${flag.slice(1)}`));
  const answers: Record<Kind, (value: OutlinedValue) => string> = {
    choices: ({ choices }) => ` -x -a '${choices.join(' ')}'`,
    file: () => ' -r -F',
    folder: () => ` -x -a '(__fish_complete_directories)'`,
    unknown: () => ' -x',
  };
  const takes = value === undefined ? '' : answers[kindOf(value)](value);
  return `${names.join(' ')}${takes} -d '${quotable(description)}'`;
}

/**
 * A description for single quotes in all three shells. Colons may stay: zsh ends the name at the first one.
 */
function quotable(text: string): string {
  return text.replaceAll("'", '’').replaceAll('\\', '/');
}
