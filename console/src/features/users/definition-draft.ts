import { builderOf, type Group, jsonOf, NEW_GROUP } from './builder/model.ts';
import type { Computation } from './queries.ts';

/**
 * A definition while it is edited: as text, or as the rows of the builder. Both are sent to the server, which
 * checks them.
 */
export type DefinitionDraft =
  | { readonly form: 'text'; readonly text: string }
  | { readonly form: 'builder'; readonly group: Group };

type Json = Readonly<Record<string, unknown>>;

/** The draft of a stored or new definition; in the builder if it can show it. */
export function definitionDraftOf(stored: Computation | undefined, hasBuilder: boolean): DefinitionDraft {
  if (!hasBuilder) return { form: 'text', text: stored?.definition ?? '' };
  const group = stored === undefined ? NEW_GROUP : builderOf(stored.json);
  return typeof group === 'string'
    ? { form: 'text', text: stored?.definition ?? '' }
    : { form: 'builder', group };
}

/** The definition to send to the server; undefined while something is missing. */
export function definitionOf(draft: DefinitionDraft): string | Json | undefined {
  if (draft.form === 'builder') return jsonOf(draft.group);
  return draft.text.trim() === '' ? undefined : draft.text;
}
