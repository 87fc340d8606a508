import { Check, Copy } from 'lucide-react';
import { type ComponentProps, type ReactNode, useId, useRef, useState } from 'react';
import { Icon } from './icons.tsx';
import './controls.css';

interface ButtonProps extends ComponentProps<'button'> {
  readonly kind?: 'plain' | 'primary' | 'quiet' | 'danger';
  readonly isSmall?: boolean;
  /** Only an icon inside: give it an `aria-label`. */
  readonly isIcon?: boolean;
}

const KINDS = { plain: '', primary: 'btn-p', quiet: 'btn-q', danger: 'btn-bad' };

export function Button({ kind = 'plain', isSmall, isIcon, className = '', ...rest }: ButtonProps) {
  const classes = ['btn', KINDS[kind], isSmall ? 'btn-s' : '', isIcon ? 'btn-i' : '', className];
  return <button type="button" className={classes.filter(Boolean).join(' ')} {...rest} />;
}

export interface SegmentedProps<Value extends string> {
  readonly label: string;
  readonly options: readonly { readonly value: Value; readonly label: string }[];
  readonly value: Value;
  readonly onChange: (value: Value) => void;
}

/** One of a few values that are all visible. */
export function Segmented<Value extends string>({ label, options, value, onChange }: SegmentedProps<Value>) {
  return (
    <fieldset className="seg" aria-label={label}>
      {options.map((option) => (
        <button
          key={option.value}
          type="button"
          aria-pressed={option.value === value}
          onClick={() => onChange(option.value)}
        >
          {option.label}
        </button>
      ))}
    </fieldset>
  );
}

export interface FieldProps {
  readonly label: string;
  readonly hint?: ReactNode;
  /** The mistake, and what to do. */
  readonly error?: string | undefined;
  /** Renders the control with the attributes that tie it to its label and its error. */
  readonly children: (control: ControlProps) => ReactNode;
}

interface ControlProps {
  readonly id: string;
  readonly 'aria-describedby': string;
  readonly 'aria-invalid': boolean;
}

export function Field({ label, hint, error, children }: FieldProps) {
  const id = useId();
  const about = `${id}-about`;
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      {children({ id, 'aria-describedby': about, 'aria-invalid': error !== undefined })}
      <span id={about} className={error === undefined ? 'hint' : 'st bad field-error'}>
        {error === undefined ? (
          hint
        ) : (
          <>
            <Icon name="bad" />
            {error}
          </>
        )}
      </span>
    </div>
  );
}

export interface TextInputProps extends ComponentProps<'input'> {
  readonly before?: ReactNode;
  readonly after?: ReactNode;
  readonly isSmall?: boolean;
}

export function TextInput({ before, after, isSmall, className = '', ...rest }: TextInputProps) {
  return (
    <span className={`input ${isSmall ? 'input-s' : ''} ${className}`}>
      {before}
      <input autoComplete="off" spellCheck={false} {...rest} />
      {after}
    </span>
  );
}

interface SelectProps extends Omit<ComponentProps<'select'>, 'onChange' | 'value'> {
  readonly options: readonly { readonly value: string; readonly label: string }[];
  readonly value: string;
  readonly onChange: (value: string) => void;
}

/** The browser's own select, which works on every phone and with every screen reader. */
export function Select({ options, value, onChange, className = '', ...rest }: SelectProps) {
  return (
    <select
      className={`sel ${className}`}
      value={value}
      onChange={(event) => onChange(event.target.value)}
      {...rest}
    >
      {options.map((option) => (
        <option key={option.value} value={option.value}>
          {option.label}
        </option>
      ))}
    </select>
  );
}

const SHOWN = 1500;

interface CopyButtonProps {
  readonly text: string | (() => string);
  readonly label?: string;
  readonly kind?: ButtonProps['kind'];
  /** Only the icon; the label is for screen readers. */
  readonly isIcon?: boolean;
  /** As high as the buttons beside it in the head of a page. */
  readonly isTall?: boolean;
}

export function CopyButton(props: CopyButtonProps) {
  const { text, label = 'Copy', kind = 'quiet', isIcon = false, isTall = false } = props;
  const [isCopied, setIsCopied] = useState(false);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const copy = async (): Promise<void> => {
    await writeClipboard(typeof text === 'string' ? text : text());
    setIsCopied(true);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => setIsCopied(false), SHOWN);
  };
  const Mark = isCopied ? Check : Copy;
  return (
    <Button
      kind={kind}
      isSmall={!isTall}
      isIcon={isIcon}
      aria-label={isIcon ? label : undefined}
      onClick={() => void copy()}
    >
      <Mark className="i i-s" aria-hidden />
      {!isIcon && (isCopied ? 'Copied' : label)}
      <span className="sr" aria-live="polite">
        {isCopied ? 'Copied' : ''}
      </span>
    </Button>
  );
}

/**
 * Writes to the clipboard; through a selected field where the browser offers no other way, as on pages
 * without TLS.
 */
async function writeClipboard(text: string): Promise<void> {
  if (navigator.clipboard !== undefined) {
    await navigator.clipboard.writeText(text);
    return;
  }
  const area = document.createElement('textarea');
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand('copy');
  area.remove();
}
