import * as z from 'zod';
import type { Condition, EventAggregate } from '../model/definition.ts';
import { MAX_ENTRIES } from '../model/input-limits.ts';
import { isObject, type JsonObject } from '../model/json.ts';
import type { AudienceRecord, TraitRecord } from '../model/settings.ts';
import { formatDefinition } from '../users/language/format.ts';
import { type ReadDefinition, readAudience, readTrait } from '../users/language/json-form.ts';
import { type ParsedDefinition, parseAudience, parseTrait } from '../users/language/text-form.ts';
import { flag, recordName } from './names.ts';

const DEFINITION_RULE = 'must be text: a definition, such as event(…) or trait(…), or its JSON form';

const keyed = (used: string) =>
  recordName()
    .refine((value) => snakeCase(value) !== '', {
      error: 'must have a letter from A to Z or a digit: the key that destinations get is made of these',
      params: { found: true },
    })
    .refine((value) => value !== 'preview', {
      error: 'must not be preview, which is a path of the control API',
    })
    .meta({ not: { const: 'preview' }, description: `Unique among audiences and computed traits. ${used}` });

const definition = (example: string) =>
  z
    .unknown()
    .refine((value) => typeof value === 'string' || isObject(value), {
      error: DEFINITION_RULE,
      params: { found: true },
    })
    .transform((value) => value as string | JsonObject)
    .meta({
      type: ['string', 'object'],
      description: 'What it is, in the language of audiences; or the same as JSON.',
      examples: [example],
    });

const destinations = () =>
  z
    .array(recordName(), 'must be a list of names of destinations')
    .default([])
    .meta({ description: 'Names of the destinations that are told.', maxItems: MAX_ENTRIES });

const enabled = () =>
  flag()
    .default(true)
    .meta({ description: 'While false it is not computed, and destinations hear nothing.' });

/** An entry of `audiences`, as an operator writes it. */
export const audienceSchema = z
  .strictObject(
    {
      name: keyed('Other definitions refer to it.'),
      definition: definition("event('Order Completed').within(30 days).count() >= 2"),
      destinations: destinations(),
      includeAnonymous: flag()
        .default(false)
        .meta({ description: 'Whether profiles without a userId may be members.' }),
      enabled: enabled(),
    },
    'must be a mapping with name and definition',
  )
  .transform((written, context): AudienceRecord => {
    const { name, includeAnonymous } = written;
    const read = definitionFrom(written.definition, context, { text: parseAudience, json: readAudience });
    return {
      kind: 'audience',
      name,
      key: snakeCase(name),
      ...read,
      destinations: written.destinations,
      enabled: written.enabled,
      includeAnonymous,
    };
  });

/** An entry of `traits`, as an operator writes it. */
export const traitSchema = z
  .strictObject(
    {
      name: keyed('Definitions refer to it as computed(…).'),
      definition: definition("event('Order Completed').sum(property('total'))"),
      destinations: destinations(),
      enabled: enabled(),
    },
    'must be a mapping with name and definition',
  )
  .transform((written, context): TraitRecord => {
    const { name } = written;
    const read = definitionFrom(written.definition, context, { text: parseTrait, json: readTrait });
    return {
      kind: 'trait',
      name,
      key: snakeCase(name),
      ...read,
      destinations: written.destinations,
      enabled: written.enabled,
    };
  });

interface Readers<Of> {
  readonly text: (text: string) => ParsedDefinition<Of>;
  readonly json: (json: unknown) => ReadDefinition<Of>;
}

/** The definition with its text, or an issue for each of its mistakes. */
function definitionFrom<Of extends Condition | EventAggregate>(
  written: string | JsonObject,
  context: z.core.$RefinementCtx,
  read: Readers<Of>,
): { readonly text: string; readonly definition: Of } {
  const result = typeof written === 'string' ? read.text(written) : read.json(written);
  if ('definition' in result) {
    // A block of YAML ends with a line feed.
    const text = typeof written === 'string' ? written.trimEnd() : formatDefinition(result.definition);
    return { text, definition: result.definition };
  }
  for (const { message, ...place } of result.problems) {
    const path = ['definition', ...('path' in place ? place.path : [])];
    const params = 'line' in place ? { line: place.line, column: place.column } : {};
    context.issues.push({ code: 'custom', input: written, path, message, params });
  }
  return z.NEVER;
}

/**
 * The key of an audience or of a computed trait: its name in snake case; empty when no ASCII letter and no
 * digit is in it. spec/specification.md, "Keys of audiences".
 */
export function snakeCase(name: string): string {
  return name
    .replace(/([a-z])([A-Z])/g, '$1 $2')
    .split(/[^A-Za-z0-9]+/)
    .filter((word) => word !== '')
    .join('_')
    .toLowerCase();
}
