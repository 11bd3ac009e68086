// Forms from descriptions of their fields. What the API says of a field stands at the field.
import type { JSX } from 'preact';
import { useId, useState } from 'preact/hooks';
import type { Issue } from '../../api/api_types';
import { ApiError } from '../../api/request';
import { Failure, useAction } from '../../ui/query';
import { Text } from '../../ui/text';
import { useWhy } from './parts';

type Value = string | boolean | string[];
export type Values = Record<string, Value>;
export type Body = { [name: string]: unknown };

interface Common {
  /** Where it is in the body: `name`, or `config.url`. */
  name: string;
  label: string;
  hint?: string;
  required?: boolean;
  /** Whether it is asked for, by what was given so far. */
  when?: (values: Values) => boolean;
}

export type Option = [string, string];

interface Written {
  initial?: string;
  nullable?: boolean;
}

interface Line extends Written {
  placeholder?: string;
}

/** What the kinds of fields have besides. */
interface Kinds {
  text: Line;
  password: Line;
  email: Line;
  url: Line;
  number: Written & { min?: number; max?: number };
  long: Written & { rows?: number };
  /** One per line, or between commas; `isExact`: one per line, with its commas and spaces. */
  lines: { initial?: string; keepsEmpty?: boolean; isExact?: boolean };
  json: Written & { rows?: number };
  check: { initial?: boolean };
  choice: Written & { options: Option[] };
  many: { options: Option[]; initial?: string[]; keepsEmpty?: boolean };
}

type Kind = keyof Kinds;
export type FieldSpec = { [K in Kind]: Common & Kinds[K] & { kind: K } }[Kind];
type More<K extends Kind> = Kinds[K] & Partial<Common>;

export { options } from '../../ui/elements';

export function field<K extends Kind>(kind: K, name: string, label: string, more?: More<K>): FieldSpec {
  return { kind, name, label, ...more } as FieldSpec;
}

/** What has to be given. */
export function required<K extends Kind>(kind: K, name: string, label: string, more?: More<K>): FieldSpec {
  return { ...field(kind, name, label, more), required: true };
}

/** What the API's description says of the fields of a body (`api_types.ts`): a label, where they have a title. */
type Described = {
  readonly [name: string]: { readonly kind: Kind; readonly required?: boolean; readonly label?: string };
};
/** What is said of a field besides: a label, or whatever else the description does not have. */
type Said =
  | string
  | { label?: string; hint?: string; kind?: Kind; options?: Option[]; initial?: string; placeholder?: string };

/** The fields of a body, in the order of what is said of them. */
export function fieldsOf<B extends Described>(body: B, said: { [name in keyof B]?: Said }): FieldSpec[] {
  return Object.entries(said).map(([name, more]) => {
    return { name, label: name, ...body[name], ...(typeof more === 'string' ? { label: more } : more) } as FieldSpec;
  });
}

interface FormProps {
  label: string;
  fields: FieldSpec[];
  button: string;
  /** Why it cannot be sent. */
  why?: string | null;
  /** The values stay after success: a change, not something new. */
  keeps?: boolean;
  done?: string;
  submit: (body: Body) => Promise<unknown>;
}

/** Raised here, before anything is sent. */
class FieldError extends Error {
  constructor(readonly details: Issue[]) {
    super('The form is not valid.');
  }
}

export function Form({
  label,
  fields,
  button,
  why: besides = null,
  keeps = false,
  done,
  submit,
}: FormProps): JSX.Element {
  const why = useWhy(besides);
  const [values, setValues] = useState<Values>(() => initialValues(fields));
  const [isDone, setDone] = useState(false);
  const action = useAction();
  const asked = fields.filter((field) => field.when === undefined || field.when(values));
  const details = action.error instanceof ApiError || action.error instanceof FieldError ? action.error.details : [];
  const atFields = new Set(asked.flatMap((field) => detailsOf(field, details)));
  return (
    <form
      class="settings-form"
      aria-label={label}
      onSubmit={(event) => {
        event.preventDefault();
        setDone(false);
        void action
          .run(async () => submit(toBody(asked, values)))
          .then((isSent) => {
            if (isSent && !keeps) setValues(initialValues(fields));
            setDone(isSent);
          });
      }}
    >
      {asked.map((field) => (
        <Input
          key={field.name}
          field={field}
          value={values[field.name] ?? ''}
          errors={detailsOf(field, details)}
          set={(value) => setValues((before) => ({ ...before, [field.name]: value }))}
        />
      ))}
      <Failure error={without(action.error, atFields)} />
      {isDone && done !== undefined && (
        <p class="good" role="status">
          {done}
        </p>
      )}
      <div class="bar-row">
        <button type="submit" disabled={why !== null || action.isBusy} title={why ?? ''}>
          {button}
        </button>
        {why !== null && <span class="quiet">{why}</span>}
      </div>
    </form>
  );
}

interface InputProps {
  field: FieldSpec;
  value: Value;
  errors: Issue[];
  set: (value: Value) => void;
}

function Input({ field, value, errors, set }: InputProps): JSX.Element {
  const id = useId();
  const described = [field.hint === undefined ? '' : `${id}-hint`, errors.length === 0 ? '' : `${id}-error`]
    .filter((one) => one !== '')
    .join(' ');
  const common = {
    id,
    name: field.name,
    required: field.required ?? false,
    'aria-invalid': errors.length > 0,
    ...(described === '' ? {} : { 'aria-describedby': described }),
  };
  const notes = (
    <>
      {field.hint !== undefined && (
        <small id={`${id}-hint`} class="quiet">
          {field.hint}
        </small>
      )}
      {errors.length > 0 && (
        <small id={`${id}-error`} class="error" role="alert">
          {errors.map((one) => (
            <Text key={one.path + one.code} of={one.message} />
          ))}
        </small>
      )}
    </>
  );
  if (field.kind === 'check') {
    return (
      <div class="field">
        <label>
          <input
            {...common}
            type="checkbox"
            checked={value === true}
            onChange={(event) => set(event.currentTarget.checked)}
          />{' '}
          {field.label}
        </label>
        {notes}
      </div>
    );
  }
  if (field.kind === 'many') {
    const chosen = Array.isArray(value) ? value : [];
    return (
      <fieldset class="field">
        <legend>{field.label}</legend>
        <div class="bar-row">
          {field.options.map(([one, name]) => (
            <label key={one}>
              <input
                type="checkbox"
                name={field.name}
                value={one}
                checked={chosen.includes(one)}
                onChange={(event) =>
                  set(event.currentTarget.checked ? [...chosen, one] : chosen.filter((each) => each !== one))
                }
              />{' '}
              {name}
            </label>
          ))}
        </div>
        {notes}
      </fieldset>
    );
  }
  return (
    <div class="field">
      <label for={id}>
        <span>{field.label}</span>
      </label>
      {field.kind === 'choice' ? (
        <select {...common} value={String(value)} onChange={(event) => set(event.currentTarget.value)}>
          {field.options.map(([one, name]) => (
            <option key={one} value={one}>
              {name}
            </option>
          ))}
        </select>
      ) : field.kind === 'long' || field.kind === 'lines' || field.kind === 'json' ? (
        <textarea
          {...common}
          class="mono"
          spellcheck={false}
          rows={field.kind === 'lines' ? 3 : (field.rows ?? 4)}
          value={String(value)}
          onInput={(event) => set(event.currentTarget.value)}
        />
      ) : (
        <input
          {...common}
          type={field.kind}
          autocomplete={field.kind === 'password' ? 'new-password' : 'off'}
          {...(field.kind === 'number' ? { min: field.min ?? '', max: field.max ?? '' } : {})}
          {...(field.kind !== 'number' && field.placeholder !== undefined ? { placeholder: field.placeholder } : {})}
          value={String(value)}
          onInput={(event) => set(event.currentTarget.value)}
        />
      )}
      {notes}
    </div>
  );
}

function initialValues(fields: FieldSpec[]): Values {
  const values: Values = {};
  for (const field of fields) {
    // Of several with one name, each for another kind, the first gives the value.
    if (Object.hasOwn(values, field.name)) continue;
    if (field.kind === 'check') values[field.name] = field.initial ?? false;
    else if (field.kind === 'many') values[field.name] = field.initial ?? [];
    else if (field.kind === 'choice') values[field.name] = field.initial ?? field.options[0]?.[0] ?? '';
    else values[field.name] = field.initial ?? '';
  }
  return values;
}

/** The body that the values are. Raises FieldError. */
function toBody(fields: FieldSpec[], values: Values): Body {
  const body: Body = {};
  const wrong: Issue[] = [];
  for (const field of fields) {
    try {
      const value = toJson(field, values[field.name] ?? '');
      if (value !== undefined) put(body, field.name, value);
    } catch (error) {
      wrong.push({ path: `body.${field.name}`, message: (error as Error).message, code: 'json' });
    }
  }
  if (wrong.length > 0) throw new FieldError(wrong);
  return body;
}

/** undefined: the field is absent. */
function toJson(field: FieldSpec, value: Value): unknown {
  if (field.kind === 'check') return value === true;
  if (Array.isArray(value)) return value.length > 0 || (field.kind === 'many' && field.keepsEmpty) ? value : undefined;
  const text = String(value);
  if (field.kind === 'lines') {
    const lines = text
      .split(field.isExact ? '\n' : /[\n,]/)
      .map((one) => (field.isExact ? one : one.trim()))
      .filter((one) => one !== '');
    return lines.length > 0 || field.keepsEmpty ? lines : undefined;
  }
  if (text.trim() === '') return 'nullable' in field && field.nullable ? null : undefined;
  if (field.kind === 'number') return Number(text);
  if (field.kind === 'json') return JSON.parse(text);
  return field.kind === 'password' || field.kind === 'long' ? text : text.trim();
}

function put(body: Body, name: string, value: unknown): void {
  const parts = name.split('.');
  const last = parts.pop() ?? name;
  let at = body;
  for (const part of parts) at = (at[part] ??= {}) as Body;
  at[last] = value;
}

function detailsOf(field: FieldSpec, details: Issue[]): Issue[] {
  const path = `body.${field.name}`;
  return details.filter(
    (one) => one.path === path || one.path.startsWith(`${path}.`) || one.path.startsWith(`${path}[`),
  );
}

/** The error without what stands at the fields. */
function without(error: Error | null, shown: Set<Issue>): Error | null {
  if (!(error instanceof ApiError)) return error;
  const details = error.details.filter((one) => !shown.has(one));
  return new ApiError(error.status, error.code, error.message, details, error.requestId, error.retryAfterS);
}
