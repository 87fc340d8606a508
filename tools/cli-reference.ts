import { grammar } from '../cli/src/grammar.ts';
import { type OutlinedVerb, outlineOf } from '../cli/src/outline.ts';

const HEAD = `# Command line

Every verb of \`millrace\`, made from the program itself by \`npm run generate\`. In the repository it is \`npx millrace …\`.

Results are on stdout, everything else is on stderr. It ends with 0 when what was asked is done, with 1 when it failed, and with 2
when the command line or a configuration is wrong. Colours and progress bars are for terminals; \`NO_COLOR\` takes the colours away.
A table is as wide as the terminal at most: long texts end in \`…\`, and what has no room stands below its row; in a pipe nothing is cut.
Text that clients or endpoints sent is shown with \`·\` for each character a terminal would obey or not show, and \`\\uXXXX\` in JSON.
Durations are written \`5s\`, \`10m\`, \`4h\`, sizes \`32KB\`. \`millrace help VERB\` prints what stands here.

Verbs that ask a running server find it by \`--url\` or \`MILLRACE_URL\`. Their token is \`--token\`, \`MILLRACE_ADMIN_TOKEN\`, or what is in
the file \`admin-token\` of the data folder, named by \`--data\` or \`MILLRACE_DATA\`.
`;

/** `docs/reference/cli.md`, made from the program's own grammar: the two cannot differ. */
export function cliReference(): string {
  const program = grammar(() => async () => {}, '0.0.0');
  // One that has verbs below it is a verb itself when it takes an argument: `replay`.
  const isVerb = ({ verbs, values }: OutlinedVerb) => verbs.length === 0 || values.length > 0;
  const verbs = outlineOf(program).filter((one) => one.path.length > 0 && isVerb(one));
  const rows = verbs.map(({ path, description }) => {
    const name = path.join(' ');
    return `| [\`${name}\`](#millrace-${path.join('-')}) | ${cell(description)} |`;
  });
  return `${HEAD}\n| verb | |\n|---|---|\n${rows.join('\n')}\n${verbs.map(sectionOf).join('')}`;
}

function sectionOf({ path, description, usage, values, options, examples }: OutlinedVerb): string {
  const sentence = `${description.charAt(0).toUpperCase()}${description.slice(1)}.`;
  const rows = [
    ...values.map(({ name, description: what, choices, isRequired }) => {
      const term = isRequired ? `<${name}>` : `[${name}]`;
      return row(term, withChoices(what, choices));
    }),
    ...options
      .filter(({ flags }) => !flags.includes('--help'))
      .map(({ term, description: what, value, isRequired }) =>
        row(term, `${withChoices(what, value?.choices ?? [])}${isRequired ? ' (required)' : ''}`),
      ),
  ];
  const table = rows.length === 0 ? '' : `\n| | |\n|---|---|\n${rows.join('\n')}\n`;
  const commands =
    examples.length === 0
      ? ''
      : `\n<!-- run by: cli/test/help.test.ts -->\n\`\`\`sh\n${examples.join('\n')}\n\`\`\`\n`;
  return `\n## millrace ${path.join(' ')}\n\n${escaped(sentence)}\n\n\`${usage}\`\n${table}${commands}`;
}

function withChoices(description: string, choices: readonly string[]): string {
  const named = choices.map((choice) => `\`${choice}\``).join(', ');
  return choices.length === 0 ? cell(description) : `${cell(description)}: ${named}`;
}

function row(term: string, description: string): string {
  return `| \`${term.replaceAll('|', '\\|')}\` | ${description} |`;
}

function cell(text: string): string {
  return escaped(text).replaceAll('|', '\\|');
}

/** Escapes text that Markdown would take for a tag. */
function escaped(text: string): string {
  return text.replaceAll('<', '&lt;');
}
