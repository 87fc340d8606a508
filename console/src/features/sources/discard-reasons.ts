import catalogue from '../../../../spec/errors.json' with { type: 'json' };

/** A reason to discard a call in words: its cause, and an action that helps. */
export function reasonText(reason: string): { readonly cause: string; readonly action: string } {
  const entries: Readonly<Record<string, { readonly message: string; readonly hint: string }>> =
    catalogue.discard;
  const entry = Object.hasOwn(entries, reason) ? entries[reason] : undefined;
  return entry === undefined
    ? { cause: 'This version of the console has no words for this reason.', action: '' }
    : { cause: entry.message, action: entry.hint };
}
