import { type FormEvent, type ReactNode, useEffect, useId, useLayoutEffect, useRef, useState } from 'react';
import { sentence } from '../api/client.ts';
import { Button, Field, TextInput } from './controls.tsx';
import { focusFirstFault } from './first-fault.ts';
import './dialog.css';

interface DialogProps {
  readonly title: string;
  readonly onClose: () => void;
  readonly children: ReactNode;
  /** Buttons; the last one is the main action. */
  readonly foot?: ReactNode;
  readonly className?: string;
}

/**
 * A modal dialog: the browser's own, which keeps the focus inside, closes at Esc and needs no styles that a
 * strict content security policy refuses. Mount it to open it.
 */
export function Dialog({ title, onClose, children, foot, className = 'dlg' }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  // Closed before it is taken away: then the browser gives the focus back to where it was.
  useLayoutEffect(() => {
    const opened = dialog.current;
    opened?.showModal();
    return () => opened?.close();
  }, []);
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: Esc closes a dialog already; a click beside it does the same.
    <dialog
      ref={dialog}
      className={className}
      aria-labelledby={id}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onClick={(event) => event.target === dialog.current && onClose()}
    >
      <div>
        <div className="dlg-h">
          <h2 id={id}>{title}</h2>
        </div>
        <div className="dlg-b">{children}</div>
        {foot !== undefined && <div className="dlg-f">{foot}</div>}
      </div>
    </dialog>
  );
}

interface FormDialogProps {
  readonly title: string;
  /** The word on the button: a verb and its object. */
  readonly action: string;
  readonly isReady: boolean;
  readonly children: ReactNode;
  /** A failure is for the caller to show at its field, which gets the focus; the dialog stays open. */
  readonly onSubmit: () => Promise<unknown>;
  readonly onClose: () => void;
}

/** A dialog that is a form: Enter in a field submits it. */
export function FormDialog({ title, action, isReady, children, onSubmit, onClose }: FormDialogProps) {
  const id = useId();
  const form = useRef<HTMLFormElement>(null);
  const [isBusy, setIsBusy] = useState(false);
  const [refusals, setRefusals] = useState(0);
  useEffect(() => {
    if (refusals > 0) focusFirstFault(form.current);
  }, [refusals]);
  const submit = async (event: FormEvent): Promise<void> => {
    event.preventDefault();
    setIsBusy(true);
    await onSubmit().catch(() => setRefusals((before) => before + 1));
    setIsBusy(false);
  };
  const foot = (
    <>
      <Button onClick={onClose}>Cancel</Button>
      <Button kind="primary" type="submit" form={id} disabled={!isReady || isBusy}>
        {action}
      </Button>
    </>
  );
  return (
    <Dialog title={title} onClose={onClose} foot={foot}>
      <form ref={form} id={id} className="stack-s" onSubmit={(event) => void submit(event)}>
        {children}
      </form>
    </Dialog>
  );
}

interface ConfirmDialogProps {
  readonly title: string;
  /** The consequences, with numbers. */
  readonly children: ReactNode;
  /** The word on the button: a verb and its object. */
  readonly action: string;
  /** Text that must be typed first; absent for actions that can be undone. */
  readonly typed?: string;
  readonly isDangerous?: boolean;
  /** False while something above is missing or wrong. */
  readonly isReady?: boolean;
  /** Closes the dialog when it resolves; a failure is shown in it. */
  readonly onConfirm: () => Promise<unknown>;
  readonly onClose: () => void;
}

export function ConfirmDialog(props: ConfirmDialogProps) {
  const { title, children, action, typed, isDangerous = false, isReady = true, onConfirm, onClose } = props;
  const [text, setText] = useState('');
  const [isBusy, setIsBusy] = useState(false);
  const [failure, setFailure] = useState<string>();
  const confirm = async (): Promise<void> => {
    setIsBusy(true);
    try {
      await onConfirm();
      onClose();
    } catch (error) {
      setFailure(sentence(error));
      setIsBusy(false);
    }
  };
  const mayConfirm = isReady && !isBusy && (typed === undefined || text === typed);
  const foot = (
    <>
      <Button onClick={onClose}>Cancel</Button>
      <Button kind={isDangerous ? 'danger' : 'primary'} disabled={!mayConfirm} onClick={() => void confirm()}>
        {action}
      </Button>
    </>
  );
  return (
    <Dialog title={title} onClose={onClose} foot={foot}>
      <div>{children}</div>
      {typed !== undefined && (
        <Field label={`Type ${typed} to go on`}>
          {(control) => (
            <TextInput {...control} value={text} onChange={(event) => setText(event.target.value)} />
          )}
        </Field>
      )}
      {failure !== undefined && (
        <p className="bad" role="alert">
          {failure}
        </p>
      )}
    </Dialog>
  );
}
