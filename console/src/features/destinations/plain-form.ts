import type { FieldLabels } from '../../editing/overtaken.tsx';
import type { RecordForm } from '../../editing/use-edited-record.ts';
import type { Destination } from './form.ts';

/** One setting of a type that has no form of its own here, as the server describes it. */
export interface PlainField {
  readonly key: string;
  readonly label: string;
  readonly hint: string;
  readonly kind: 'text' | 'secret' | 'number' | 'flag' | 'choice' | 'json';
  /** Of a choice. */
  readonly choices: readonly string[];
}

export interface PlainDraft {
  readonly sources: readonly string[];
  /** Values as they are stored; a mask stands for a secret. */
  readonly settings: Readonly<Record<string, unknown>>;
}

export const PLAIN_FORM: RecordForm<'destinations', PlainDraft> = {
  list: 'destinations',
  draftOf: ({ sources, settings }: Destination) => ({ sources, settings: { ...settings } }),
  patchOf: (base, draft) => {
    const keys = new Set([...Object.keys(base.settings), ...Object.keys(draft.settings)]);
    const changed = [...keys].filter((key) => !isEqual(base.settings[key], draft.settings[key]));
    // Null removes, in a merge patch.
    const settings = Object.fromEntries(changed.map((key) => [key, draft.settings[key] ?? null]));
    return {
      ...(isEqual(base.sources, draft.sources) ? {} : { sources: draft.sources }),
      ...(changed.length === 0 ? {} : { settings }),
    };
  },
  // Any of them may be a secret that was typed.
  withoutSecrets: (draft, base) => ({ ...draft, settings: base.settings }),
};

export const PLAIN_LABELS: FieldLabels<PlainDraft> = { sources: 'Sources', settings: 'Settings' };

function isEqual(one: unknown, other: unknown): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}

/** A schema of JSON, as far as a form is drawn from it. */
interface Schema {
  readonly title?: string;
  readonly description?: string;
  readonly type?: string;
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly writeOnly?: boolean;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly oneOf?: readonly Schema[];
  readonly anyOf?: readonly Schema[];
}

/**
 * The settings of a type by the server's OpenAPI document: what a POST of a destination takes. Empty where it
 * does not say.
 */
export function plainFieldsOf(document: unknown, type: string): readonly PlainField[] {
  const own = variantsIn(document).find((one) => typeOf(one) === type);
  return Object.entries(own?.properties?.['settings']?.properties ?? {}).map(fieldOf);
}

/** Names of the types that the server has, by the same document. Empty where it does not say. */
export function typesIn(document: unknown): readonly string[] {
  return variantsIn(document)
    .map(typeOf)
    .filter((type) => typeof type === 'string');
}

function variantsIn(document: unknown): readonly Schema[] {
  const record = valueAt(document, ['paths', '/api/v1/destinations', 'post', 'requestBody', 'content']);
  const schema = valueAt(record, ['application/json', 'schema']) as Schema | undefined;
  return schema?.oneOf ?? schema?.anyOf ?? (schema === undefined ? [] : [schema]);
}

function typeOf({ properties }: Schema): unknown {
  return properties?.['type']?.const;
}

function fieldOf([key, schema]: readonly [string, Schema]): PlainField {
  const { title = key, description = '' } = schema;
  const choices = (schema.enum ?? []).filter((one) => typeof one === 'string');
  return { key, label: title, hint: description, kind: kindOf(schema), choices };
}

function kindOf({ type, writeOnly, enum: values }: Schema): PlainField['kind'] {
  if (values !== undefined) return 'choice';
  if (type === 'string') return writeOnly === true ? 'secret' : 'text';
  if (type === 'integer' || type === 'number') return 'number';
  return type === 'boolean' ? 'flag' : 'json';
}

function valueAt(value: unknown, path: readonly string[]): unknown {
  return path.reduce<unknown>(
    (inner, key) =>
      typeof inner === 'object' && inner !== null ? (inner as Record<string, unknown>)[key] : undefined,
    value,
  );
}

/** How a value stands in its field. Of a stored secret nothing does. */
export function textOf(value: unknown): string {
  if (value === undefined || isStoredSecret(value)) return '';
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/**
 * The value of what was typed; undefined for nothing. What is no number or no JSON stays text, and the server
 * says so.
 */
export function typedValue(text: string, kind: PlainField['kind']): unknown {
  if (text === '') return undefined;
  if (kind !== 'number' && kind !== 'json') return text;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}

export function isStoredSecret(value: unknown): boolean {
  return typeof value === 'object' && value !== null && (value as { set?: unknown }).set === true;
}
