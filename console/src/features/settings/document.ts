import { parse, stringify } from 'yaml';

/** The parts of a configuration file that the control API changes. */
const PARTS = ['sources', 'destinations', 'audiences', 'traits'] as const;

export type ConfigDocument = Readonly<Record<(typeof PARTS)[number], unknown>>;

/** A text as the records of a configuration file; a sentence where it is none. */
export function documentOf(text: string): ConfigDocument | string {
  const variable = /\$\{[A-Za-z_]\w*\}/.exec(text);
  if (variable !== null)
    return `${variable[0]} reads an environment that a browser does not have. Put the value in its place, or use millrace plan.`;
  let value: unknown;
  try {
    value = parse(text);
  } catch (error) {
    return error instanceof Error ? error.message : 'The text is no YAML.';
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    return 'Paste a configuration file: a mapping with sources, destinations, audiences or traits.';
  const given = value as Readonly<Record<string, unknown>>;
  // The rest of a file, such as its port, is of the program that reads it.
  const entries = PARTS.map((part): [string, unknown] => [part, given[part] ?? []]);
  return Object.fromEntries(entries) as unknown as ConfigDocument;
}

/** Records as a configuration file. */
export function documentText(document: unknown): string {
  return stringify(document, { lineWidth: 0 });
}
