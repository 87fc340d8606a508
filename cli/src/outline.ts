import type { Argument, Command, Option } from 'commander';

/** A verb as the command line has it, `millrace` itself among them. */
export interface OutlinedVerb {
  /** `['egress', 'explain']`; empty for the program itself. */
  readonly path: readonly string[];
  readonly description: string;
  /** As in the first line of its help, such as `millrace trace [options] <messageId>`. */
  readonly usage: string;
  readonly values: readonly OutlinedValue[];
  readonly options: readonly OutlinedOption[];
  /** Names of the verbs below it. */
  readonly verbs: readonly string[];
  /** Lines of its help, each a command to type. */
  readonly examples: readonly string[];
}

/** Something that stands for itself: an argument, or the value of an option. */
export interface OutlinedValue {
  readonly name: string;
  readonly description: string;
  /** What it may be, where that is known. */
  readonly choices: readonly string[];
  readonly isRequired: boolean;
}

export interface OutlinedOption {
  /** `--port`, and the short form where there is one. */
  readonly flags: readonly string[];
  /** As help shows it: `--port <number>`. */
  readonly term: string;
  readonly description: string;
  readonly value: OutlinedValue | undefined;
  readonly isRequired: boolean;
}

/** Every verb of a grammar, parents before children, each group in the order of its help. */
export function outlineOf(program: Command): readonly OutlinedVerb[] {
  return outlined(program, []);
}

function outlined(command: Command, path: readonly string[]): OutlinedVerb[] {
  const help = command.createHelp();
  const below = help.visibleCommands(command).filter((one) => one.name() !== 'help');
  const verb = {
    path,
    description: command.description(),
    usage: help.commandUsage(command),
    values: command.registeredArguments.map(argumentOf),
    options: help.visibleOptions(command).map(optionOf),
    verbs: below.map((one) => one.name()),
    examples: examplesOf(command),
  };
  return [verb, ...below.flatMap((one) => outlined(one, [...path, one.name()]))];
}

function argumentOf(argument: Argument): OutlinedValue {
  const { description, argChoices: choices = [], required: isRequired } = argument;
  return { name: argument.name(), description, choices, isRequired };
}

function optionOf(option: Option): OutlinedOption {
  const { short, long, flags: term, description, argChoices: choices = [], mandatory: isRequired } = option;
  const name = /[<[](.+?)(?:\.\.\.)?[>\]]/.exec(term)?.[1];
  return {
    flags: [long, short].filter((flag) => flag !== undefined),
    ...{ term, isRequired },
    description: withDefault(option, description),
    value: name === undefined ? undefined : { name, description, choices, isRequired: option.required },
  };
}

function withDefault({ defaultValue, defaultValueDescription }: Option, description: string): string {
  if (defaultValue === undefined || defaultValue === false) return description;
  return `${description} (default: ${defaultValueDescription ?? String(defaultValue)})`;
}

/** What stands below `Example:` or `Examples:` at the end of a verb's help, which is the only place that has it. */
function examplesOf(command: Command): string[] {
  let text = '';
  const { writeOut } = command.configureOutput();
  command.configureOutput({
    writeOut: (part) => {
      text += part;
    },
  });
  command.outputHelp();
  command.configureOutput(writeOut === undefined ? {} : { writeOut });
  const [, after = ''] = text.split(/^Examples?:\n/m);
  return after.split('\n').flatMap((line) => (line.startsWith('  ') ? [line.slice(2)] : []));
}
