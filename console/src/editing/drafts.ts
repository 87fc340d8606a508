/**
 * Forms that are not finished, as this tab of the browser keeps them: over a sign-in, a restart of the server
 * and a look at another page. Secrets are taken out before. A sign-out forgets all forms, and so does the
 * sign-in of somebody else.
 */

const PREFIX = 'millrace.draft:';
/** Key of the name of the person whose drafts are kept. */
const OWNER = 'millrace.drafts-of';

/** A form that is not finished. */
export interface KeptForm<Form extends object> {
  readonly form: Form;
  /** True when secrets were typed into the form: they are not kept. */
  readonly lacksSecrets: boolean;
}

/** Keeps a form under a key such as `destinations/crm`; without a form it forgets the one that is kept. */
export function keepForm<Form extends object>(key: string, kept: KeptForm<Form> | undefined): void {
  withStorage((storage) => {
    if (kept === undefined) storage.removeItem(PREFIX + key);
    else storage.setItem(PREFIX + key, JSON.stringify(kept));
  });
}

/**
 * The form kept under a key, if it has the fields of `blank`: another version of the console may have kept
 * it.
 */
export function keptForm<Form extends object>(key: string, blank: Form): KeptForm<Form> | undefined {
  const text = withStorage((storage) => storage.getItem(PREFIX + key)) ?? null;
  if (text === null) return undefined;
  const kept = JSON.parse(text) as KeptForm<Form>;
  return hasFieldsOf(kept.form, blank) ? kept : undefined;
}

export function forgetForms(): void {
  withStorage((storage) => {
    for (const key of Object.keys(storage)) if (key.startsWith(PREFIX)) storage.removeItem(key);
  });
}

/** Call at sign-in: forgets forms that another person left. */
export function claimForms(owner: string): void {
  withStorage((storage) => {
    const before = storage.getItem(OWNER);
    if (before !== null && before !== owner) forgetForms();
    storage.setItem(OWNER, owner);
  });
}

/** Tells whether a form has the fields of another, each with a value of the same type. */
export function hasFieldsOf(form: object, blank: object): boolean {
  return Object.entries(blank).every(([name, value]) => {
    const other: unknown = (form as Record<string, unknown>)[name];
    return typeof other === typeof value && Array.isArray(other) === Array.isArray(value);
  });
}

/** Runs `use` with the storage. It may be switched off or full: the form then lasts as long as its page. */
function withStorage<Result>(use: (storage: Storage) => Result): Result | undefined {
  try {
    return use(sessionStorage);
  } catch {
    return undefined;
  }
}

/** An address without what may be secret in it: user name and password, query and fragment. */
export function plainAddress(url: string): string {
  return url.replace(/^([a-z][a-z0-9+.-]*:\/\/)[^/?#]*@/i, '$1').replace(/[?#].*$/s, '');
}
