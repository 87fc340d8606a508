import { useState } from 'react';
import { keepForm, keptForm } from './drafts.ts';
import { type Fields, isSame } from './fields.ts';

/** The form of a record that is not made yet. */
export interface NewRecordForm<Draft extends Fields> {
  /** Key under which the form is kept, such as `destinations?new`. */
  readonly key: string;
  readonly blank: Draft;
  /** The draft with nothing in the place of each secret. Default: it has none. */
  readonly withoutSecrets?: (draft: Draft, base: Draft) => Draft;
}

/** Facts about a form that was restored. */
export interface Restored {
  readonly lacksSecrets: boolean;
}

export interface KeptDraft<Draft extends Fields> {
  readonly draft: Draft;
  /** Present when the form was left unfinished before. */
  readonly restored?: Restored;
  put(draft: Draft): void;
  /** Call when the form is saved or dropped. */
  forget(): void;
}

/** A form that this tab keeps until it is saved or dropped. */
export function useKeptForm<Draft extends Fields>(form: NewRecordForm<Draft>): KeptDraft<Draft> {
  const { key, blank, withoutSecrets = (draft) => draft } = form;
  const [kept] = useState(() => keptForm(key, blank));
  const [draft, setDraft] = useState(kept?.form ?? blank);
  const [isRestored, setIsRestored] = useState(kept !== undefined);
  const keep = (next: Draft): void => {
    const plain = withoutSecrets(next, blank);
    const isBlank = isSame(next, blank);
    keepForm(key, isBlank ? undefined : { form: plain, lacksSecrets: !isSame(plain, next) });
  };
  return {
    draft,
    ...(isRestored && kept !== undefined ? { restored: { lacksSecrets: kept.lacksSecrets } } : {}),
    put: (next) => {
      keep(next);
      setDraft(next);
      if (isSame(next, blank)) setIsRestored(false);
    },
    forget: () => keep(blank),
  };
}
