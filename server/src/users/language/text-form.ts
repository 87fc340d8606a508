import type { Condition, EventAggregate } from '../../model/definition.ts';
import { MAX_PROBLEMS } from '../../model/input-limits.ts';
import { type CheckOptions, checkDefinition, MAX_DEFINITION_LENGTH, type PartMistake } from './checks.ts';
import { type TextMistake, tokenize } from './lexer.ts';
import { DefinitionParser } from './parser.ts';

/** A mistake in the text form. Line and column begin at 1; columns count UTF-16 units. */
export interface DefinitionProblem {
  readonly message: string;
  readonly line: number;
  readonly column: number;
}

export type ParsedDefinition<Of> =
  | {
      readonly definition: Of;
      /** The place of a mistake in a part of the definition. */
      readonly problemAt: (mistake: PartMistake) => DefinitionProblem;
    }
  /** In the order of the text, at most `MAX_PROBLEMS`. Those behind the first may follow from it. */
  | { readonly problems: readonly DefinitionProblem[] };

type Options = Omit<CheckOptions, 'max'>;

/** Reads the condition of an audience. spec/contract.md, "Definitions of traits and audiences". */
export function parseAudience(text: string, options: Options = {}): ParsedDefinition<Condition> {
  return parse(text, (parser) => parser.wholeCondition(), options);
}

/** Reads the value of a computed trait. */
export function parseTrait(text: string, options: Options = {}): ParsedDefinition<EventAggregate> {
  return parse(text, (parser) => parser.wholeAggregate(), options);
}

function parse<Of extends Condition | EventAggregate>(
  text: string,
  read: (parser: DefinitionParser) => Of | undefined,
  options: Options,
): ParsedDefinition<Of> {
  if (text.length > MAX_DEFINITION_LENGTH) {
    const message = `has ${text.length} characters, and at most ${MAX_DEFINITION_LENGTH} are allowed`;
    return { problems: [{ message, line: 1, column: 1 }] };
  }
  const { tokens, mistakes } = tokenize(text, MAX_PROBLEMS);
  if (mistakes.length > 0) return { problems: inOrder(mistakes, text) };
  const parser = new DefinitionParser(tokens, MAX_PROBLEMS);
  const definition = read(parser);
  if (parser.mistakes.length > 0 || definition === undefined)
    return { problems: inOrder(parser.mistakes, text) };
  const at = ({ part, message }: PartMistake) => ({ message, at: parser.places.get(part) ?? 0 });
  const wrong = checkDefinition(definition, { ...options, max: MAX_PROBLEMS });
  if (wrong.length > 0) return { problems: inOrder(wrong.map(at), text) };
  return { definition, problemAt: (mistake) => located(at(mistake), text) };
}

function inOrder(mistakes: readonly TextMistake[], text: string): DefinitionProblem[] {
  return [...mistakes].sort((one, other) => one.at - other.at).map((one) => located(one, text));
}

function located({ message, at }: TextMistake, text: string): DefinitionProblem {
  const before = text.slice(0, at);
  const line = before.split('\n').length;
  return { message, line, column: at - before.lastIndexOf('\n') };
}
