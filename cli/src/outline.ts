import type { Argument, Command, Option } from 'commander';

/** A verb of the command line, or `millrace` itself. */
export interface OutlinedVerb {
  /** `['egress', 'explain']`; empty for the program itself. */
  readonly path: readonly string[];
  readonly description: string;
  /** The first line of its help, such as `millrace trace [options] <messageId>`. */
  readonly usage: string;
  readonly values: readonly OutlinedValue[];
  readonly options: readonly OutlinedOption[];
  /** Names of its direct subverbs. */
  readonly verbs: readonly string[];
  /** Example commands from its help. */
  readonly examples: readonly string[];
}

/** A placeholder: an argument, or the value of an option. */
export interface OutlinedValue {
  readonly name: string;
  readonly description: string;
  /** Allowed values, where they are listed. */
  readonly choices: readonly string[];
  readonly isRequired: boolean;
}

export interface OutlinedOption {
  /** `--port`, and the short form where there is one. */
  readonly flags: readonly string[];
  /** The form in the help: `--port <number>`. */
  readonly term: string;
  readonly description: string;
  readonly value: OutlinedValue | undefined;
  readonly isRequired: boolean;
}

/** Lists every verb of a grammar, parents before children, each group in the order of its help. */
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

/** The lines below `Example:` or `Examples:` at the end of a verb's help. Examples stand nowhere else. */
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
