import type { ReactNode } from 'react';
import {
  Field,
  type FieldProps,
  Segmented,
  type SegmentedProps,
  TextInput,
  type TextInputProps,
} from './controls.tsx';

interface TextFieldProps
  extends Omit<FieldProps, 'children'>,
    Omit<TextInputProps, 'value' | 'onChange' | 'children'> {
  readonly value: string;
  readonly onChange: (value: string) => void;
}

/** A line of text with its label. */
export function TextField({ label, hint, error, onChange, ...rest }: TextFieldProps) {
  return (
    <Field label={label} hint={hint} error={error}>
      {(control) => <TextInput {...control} {...rest} onChange={({ target }) => onChange(target.value)} />}
    </Field>
  );
}

/** A choice of one of a few values, in a line with its label. */
export function Choice<Value extends string>(props: SegmentedProps<Value>) {
  return (
    <div className="rowx">
      <span className="soft">{props.label}</span>
      <Segmented {...props} />
    </div>
  );
}

interface CheckProps {
  readonly isChecked: boolean;
  readonly onChange: (isChecked: boolean) => void;
  readonly children: ReactNode;
}

export function Check({ isChecked, onChange, children }: CheckProps) {
  return (
    <label className="check">
      <input type="checkbox" checked={isChecked} onChange={({ target }) => onChange(target.checked)} />
      {children}
    </label>
  );
}

interface ChecksProps<Name extends string> {
  readonly names: readonly Name[];
  readonly chosen: readonly Name[];
  /** The text beside the box. Default: the name. */
  readonly labelOf?: (name: Name) => ReactNode;
  /** One below the other. */
  readonly isColumn?: boolean;
  readonly onChange: (chosen: readonly Name[]) => void;
  /** Content behind the boxes. */
  readonly children?: ReactNode;
}

/** Any number of names, each with a box. What was chosen before keeps its order. */
export function Checks<Name extends string>(props: ChecksProps<Name>) {
  const { names, chosen, labelOf = (name) => name, isColumn = false, onChange, children } = props;
  return (
    <div className={isColumn ? 'check-list' : 'rowx checks'}>
      {names.map((name) => (
        <Check
          key={name}
          isChecked={chosen.includes(name)}
          onChange={(isChecked) =>
            onChange(isChecked ? [...chosen, name] : chosen.filter((one) => one !== name))
          }
        >
          {labelOf(name)}
        </Check>
      ))}
      {children}
    </div>
  );
}
