// Images as the server accepts them: JPEG, PNG or WebP, small enough for the body of a request.

export const TYPES = ["image/jpeg", "image/png", "image/webp"];
const QUALITY = 0.9;

const toBlob = (canvas, type) => new Promise((resolve) => canvas.toBlob(resolve, type, QUALITY));

async function encode(blob) {
  const bytes = new Uint8Array(await blob.arrayBuffer());
  let text = "";
  for (let i = 0; i < bytes.length; i += 8192) text += String.fromCharCode(...bytes.subarray(i, i + 8192));
  return btoa(text);
}

export function decode(b64) {
  const bytes = Uint8Array.from(atob(b64), (character) => character.charCodeAt(0));
  return new Blob([bytes]);
}

// Return a blob as an image with `name`, `b64`, `url`, `width`, `height` and `isFile`. An image of
// more than `maxPixels`, and a file of more than `maxBytes` or of another type, is re-encoded with
// sides of at most `maxSide` pixels.
export async function readImage(blob, name, { maxBytes, maxPixels, maxSide, isFile }) {
  let bitmap;
  try {
    bitmap = await createImageBitmap(blob);
  } catch {
    throw new Error(`${name}: the browser cannot read this file as an image. Use a JPEG, PNG or WebP file.`);
  }
  const { width, height } = bitmap;
  const isAccepted = !isFile || (TYPES.includes(blob.type) && blob.size <= maxBytes);
  if (isAccepted && width * height <= maxPixels) {
    bitmap.close();
    return finish(blob, name, width, height, isFile);
  }
  const scale = Math.min(1, maxSide / Math.max(width, height));
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(1, Math.round(width * scale));
  canvas.height = Math.max(1, Math.round(height * scale));
  const context = canvas.getContext("2d");
  context.fillStyle = "#fff";
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  bitmap.close();
  const smaller = await toBlob(canvas, "image/jpeg");
  const stem = name.replace(/\.[^.]*$/, "");
  return finish(smaller, `${stem}-${canvas.width}x${canvas.height}.jpg`, canvas.width, canvas.height, false);
}

async function finish(blob, name, width, height, isFile) {
  const b64 = await encode(blob);
  return { name, b64, url: `data:${blob.type || "image/png"};base64,${b64}`, width, height, isFile };
}

// A canvas on which the user draws with a pointer. `isUsed` is false while its drawing is neither
// added to the images nor replaced by another image.
export class DrawingPad {
  static SIDE = 256;

  constructor(canvas, pen, size, background) {
    Object.assign(this, { canvas, pen, size, background });
    this.context = canvas.getContext("2d");
    canvas.width = canvas.height = DrawingPad.SIDE;
    this.clear();
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      this.last = this.locate(event);
      this.draw(event);
    });
    canvas.addEventListener("pointermove", (event) => this.last && this.draw(event));
    for (const name of ["pointerup", "pointercancel"]) {
      canvas.addEventListener(name, () => { this.last = null; });
    }
  }

  clear() {
    this.context.fillStyle = this.background.value;
    this.context.fillRect(0, 0, DrawingPad.SIDE, DrawingPad.SIDE);
    this.isEmpty = this.isUsed = true;
    this.last = null;
  }

  locate(event) {
    const box = this.canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top].map((x) => x * DrawingPad.SIDE / box.width);
  }

  draw(event) {
    const point = this.locate(event), { context } = this;
    Object.assign(context, { strokeStyle: this.pen.value, lineWidth: this.size.value, lineCap: "round" });
    context.beginPath();
    context.moveTo(...this.last);
    context.lineTo(...point);
    context.stroke();
    this.isEmpty = this.isUsed = false;
    this.last = point;
  }

  toBlob() {
    return toBlob(this.canvas, "image/png");
  }
}
