import { type FormEvent, type RefObject, useEffect, useRef, useState } from 'react';
import { ApiError, type ApiFault } from '../api/client.ts';
import { focusFirstFault } from '../ui/first-fault.ts';

export interface Submission {
  /** Ref of the form element. */
  readonly form: RefObject<HTMLFormElement | null>;
  readonly isSaving: boolean;
  /** The reason why nothing was saved; undefined while nothing was refused. */
  readonly failure: unknown;
  /** The fields that the server finds wrong. */
  readonly faults: readonly ApiFault[];
  submit(event: FormEvent): Promise<void>;
  /** Clears the last refusal. */
  reset(): void;
}

/** Submits a form. After a refusal the focus goes to the first field that is wrong. */
export function useSubmission(save: () => Promise<unknown>): Submission {
  const form = useRef<HTMLFormElement>(null);
  const [failure, setFailure] = useState<unknown>();
  const [isSaving, setIsSaving] = useState(false);
  useEffect(() => {
    if (failure !== undefined) focusFirstFault(form.current);
  }, [failure]);
  const submit = async (event: FormEvent): Promise<void> => {
    event.preventDefault();
    setIsSaving(true);
    setFailure(undefined);
    try {
      await save();
    } catch (error) {
      setFailure(error);
    }
    setIsSaving(false);
  };
  const faults = failure instanceof ApiError ? failure.fields : [];
  return { form, isSaving, failure, faults, submit, reset: () => setFailure(undefined) };
}
