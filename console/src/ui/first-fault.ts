/**
 * Moves the focus to the first field of a form that is marked as wrong; to the first control of a group that
 * is.
 */
export function focusFirstFault(form: HTMLFormElement | null): void {
  const field = form?.querySelector<HTMLElement>('[aria-invalid="true"]');
  const group = form?.querySelector('fieldset .field-error')?.closest('fieldset');
  (field ?? group?.querySelector<HTMLElement>('input, textarea, select, button'))?.focus();
}
